"""The CRD of NodeMetric, and its generator."""
