"""Cases of the Mid path: what the manager writes for nodes, reports, pods and a configuration."""
