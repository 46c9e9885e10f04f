"""Metric cache: recent samples of every series in memory of fixed size, and aggregates of them.

`interface` defines a metric cache, `ring` is the implementation, `store` holds all rings of the agent, and
`aggregation` is the arithmetic.
"""
