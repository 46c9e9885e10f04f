"""What makes a Python program a well-behaved long-running process: settings, logs, and its probe and metrics endpoint.

Shared by the three components; knows none of them, nor Kubernetes objects, nor the apiserver.
"""
