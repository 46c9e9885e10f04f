"""Changing this machine, and putting it back: packages, firewall, network, ports, processes."""
