"""The manager turns configuration and reports into NodeMetric specs and Mid resources on nodes.

It calculates from the reports of the agents and watches no pods. It writes NodeMetrics (all but their status), two
extended resources and one annotation on nodes, Events, its Lease and the last good configuration.
"""
