"""Reports: aggregates and predictions become a NodeMetric status that is written to the API server.

The content of a report (`status`, `conditions`) is pure; only `sending` does I/O.
"""
