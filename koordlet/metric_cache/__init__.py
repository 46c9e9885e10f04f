"""Metric cache: recent samples of every series in memory of fixed size, and aggregates of them.

`ring` is the cache, `store` holds all rings of the agent, and `aggregation` is the arithmetic.
"""
