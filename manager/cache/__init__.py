"""Watched objects, the work queue and the periodic resync."""
