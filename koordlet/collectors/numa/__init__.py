"""Reading memory usage for each NUMA node."""
