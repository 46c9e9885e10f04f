"""Build the project's container images without a container engine: `python -m tools.images`."""
