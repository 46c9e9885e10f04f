"""Simulation: pods arrive in a model of a cluster and are placed with or without the product's decisions.

Pure except for `recorded_cluster.from_files` and `from_cluster`: the clock is simulated.
"""
