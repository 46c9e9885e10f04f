"""Reports: aggregates and predictions become a NodeMetric status that is written to the API server.

The content of a report (`status`, `conditions`) and its schedule (`schedule`) are pure; only `writer` does I/O.
"""
