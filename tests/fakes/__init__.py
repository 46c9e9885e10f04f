"""Fakes are implementations: real servers and clocks that tests can steer."""
