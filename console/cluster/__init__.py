"""Reads of the cluster: in one thread, for all requests together."""
