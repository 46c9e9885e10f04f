"""A cluster for demos and end-to-end tests: `python -m tools.localcluster up`.

Start reading at `providers/local.py` (what a one-node cluster consists of, in order) and at `access.py` (what tests
and demos use of a running cluster). Nothing here knows what the suite does; it starts clusters and loads images.
"""
