"""Eviction of Mid pods: when, from which node, which pod and why (pure), and the loop that advises or evicts."""
