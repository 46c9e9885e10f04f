"""Aggregates and predictions become a NodeMetric status, and reach the apiserver.

What stands in a report (`status`, `conditions`) and when one is due (`schedule`) is pure; only `reporter` writes.
"""
