"""Explain a node, a pod and the configuration."""
