"""Cases told on a real cluster: what a user does, and what the cluster then shows."""
