"""Scheduler plugin: a kube-scheduler extender that places pods by real load. It writes nothing to the apiserver."""
