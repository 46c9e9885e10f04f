"""State of the cluster that the agent needs: its node, its NodeMetric, the pods on the node."""
