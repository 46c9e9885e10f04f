"""Watches, store and work queue."""
