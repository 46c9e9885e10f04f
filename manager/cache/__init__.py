"""Watches, store, work queue and periodic resync."""
