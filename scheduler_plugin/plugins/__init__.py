"""The policies: each turns a pod and the cluster's rows into a verdict or a score per row."""
