"""NodeMetric objects: created with their Node, their spec follows the node's strategy. Never touches their status."""
