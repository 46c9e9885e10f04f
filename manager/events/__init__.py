"""Kubernetes Events of the manager: the recorder, and a queue before it."""
