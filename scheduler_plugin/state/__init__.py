"""Cluster state of the extender: one row per node, kept current by the watches.

Only `informer` and `mid_watches` do I/O. Time is passed in, and nothing here depends on a plugin.
"""
