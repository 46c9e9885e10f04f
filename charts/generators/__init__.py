"""Generators of files of the chart."""
