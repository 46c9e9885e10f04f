"""Load watcher: serves the utilisation of every node over 5, 10 and 15 minutes, from one or several providers."""
