"""Build the project's container images and collect the wheels that they install: `python -m tools.images`."""
