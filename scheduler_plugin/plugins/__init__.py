"""Plugins: each turns a pod and the node rows into a rejection or a score per row."""
