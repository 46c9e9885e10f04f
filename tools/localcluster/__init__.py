"""A one-node Kubernetes cluster without Docker: `python -m tools.localcluster up`.

Start reading at `providers/local.py` (the parts of a one-node cluster, in order) and at `access.py` (access to a
running cluster). The package imports neither the product nor `tools.images`: it starts clusters and loads
docker-archives.
"""
