"""Changes to this machine and their removal: packages, firewall, network, ports, processes."""
