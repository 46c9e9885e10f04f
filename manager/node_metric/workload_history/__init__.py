"""Workload history: what the pods of a workload used on all nodes, for the nodes on which its next pods are cold."""
