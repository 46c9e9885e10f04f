"""Commands: check-config, explain-pod, simulate."""
