"""Mid resources in the status of nodes: whether to publish, what, and why. The formula itself is in `api_types`."""
