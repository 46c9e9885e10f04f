"""Shared base of the long-running processes: settings, logs, tasks, and the endpoint of probes and metrics.

Imports no component, and uses neither Kubernetes objects nor the apiserver.
"""
