"""The scheduler plugin: a kube-scheduler extender that places pods by real load.

Knows the extender protocol and the objects it watches; writes nothing to the apiserver.
"""
