"""Strategy of a node, from the ConfigMap and the node's labels and annotations."""
