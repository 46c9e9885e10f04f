"""Generators of documentation: pages under docs/reference, score curves, the index of decisions."""
