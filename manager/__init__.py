"""The manager: turns configuration and reports into NodeMetric specs and Mid resources on nodes.

It calculates from what the agents report and watches no pods. What it writes: NodeMetrics (all but their status), two
extended resources and one annotation on nodes, Events, its Lease and the last good configuration.
"""
