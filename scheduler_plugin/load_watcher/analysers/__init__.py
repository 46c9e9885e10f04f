"""Models that add to the measurements or correct them, from this package and from others."""
