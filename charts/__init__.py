"""The chart, and the generators of its files."""
