"""Read-only web pages about a cluster: a small server for the browser of one operator."""
