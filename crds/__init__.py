"""The CRD that the models generate, and its generator."""
