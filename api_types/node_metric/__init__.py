"""Define the NodeMetric resource, its CRD, its readers and the Mid formula."""
