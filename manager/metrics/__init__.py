"""Metrics of the manager."""
