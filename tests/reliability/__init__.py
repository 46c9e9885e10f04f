"""Catalogue of faults: what must hold for each component, the tests that show it, and what no test shows."""
