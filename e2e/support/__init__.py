"""What the user stories of `e2e/cases/` share: the installed suite, workloads, eyes on the cluster, second opinions.

Nothing here imports the product. What is checked is read through the official Kubernetes client, and what is expected
is worked out anew, so that a mistake would have to be made twice to stay hidden.
"""
