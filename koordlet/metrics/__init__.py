"""Metrics of the agent, read when a scrape arrives."""
