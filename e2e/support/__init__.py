"""Support of the cases in `e2e/cases/`: the installed suite, workloads, a cluster client, reference models.

Nothing here imports the product. Checked values are read through the official Kubernetes client, and expected values
are computed independently, so that one mistake cannot hide another.
"""
