"""History of the values that the pages draw: in memory, and from a Prometheus."""
