"""Load watcher: serves the utilization of every node over 5, 10 and 15 minutes, from one or several providers."""
