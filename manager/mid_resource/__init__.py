"""Mid resources in the status of nodes: whether to publish, what, and why. The formula is in `api_types`."""
