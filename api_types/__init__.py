"""What the components tell one another through the kube-apiserver: models, quantities, names.

Types and their arithmetic only. No I/O, no clock, no client; nothing here knows a component.
"""
