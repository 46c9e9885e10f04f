"""Commands of koordctl that read a cluster, and their output."""
