"""Reading cgroups, v1 and v2, of every driver and QoS class."""
