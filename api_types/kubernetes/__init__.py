"""Kubernetes types and formats: pods, quantities, priorities, times, CPU lists. No I/O."""
