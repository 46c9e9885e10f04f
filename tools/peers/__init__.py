"""Koordinator's own programs, for the cases that run the suite beside them."""
