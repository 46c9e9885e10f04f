"""From the ConfigMap and a node's labels and annotations to the strategy that holds for that node."""
