"""What the agent knows of the cluster: its node, its NodeMetric, the pods on the node."""
