"""One snapshot of a cluster for the operator: nodes, reports, pods, configuration, and what is wrong with them."""
