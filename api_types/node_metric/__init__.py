"""The NodeMetric resource, its CRD, and the Mid formula that reads it."""
