"""Recorded ticks of a node -> the statuses that its agent publishes; see `world`."""
