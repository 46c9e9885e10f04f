"""NodeMetric objects: created with their Node, their spec from the node's strategy. Their status is never written."""
