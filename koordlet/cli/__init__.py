"""Commands that run without a cluster: preview."""
