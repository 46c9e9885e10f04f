"""Types that the components exchange through the kube-apiserver: models, quantities, names.

Types and their arithmetic only: no I/O, no clock, no client, and no import of a component.
"""
