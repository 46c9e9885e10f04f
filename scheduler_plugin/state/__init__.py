"""What the extender knows of the cluster: one row per node, kept current by the watches.

Pure but for `informer`: time is passed in, and nothing here knows a policy.
"""
