"""Fakes: real servers and clocks that tests control."""
