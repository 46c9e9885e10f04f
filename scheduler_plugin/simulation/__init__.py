"""Simulation: pods arrive in a model of a cluster and are placed with or without the product's decisions.

Pure except for `recording` (files, the apiserver): the clock is simulated.
"""
