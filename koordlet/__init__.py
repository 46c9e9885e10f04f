"""The node agent: measures what really runs on its node, predicts the peak of Prod pods, publishes a NodeMetric.

Data flows one way: collectors -> metric cache -> prediction -> NodeMetric report. Nothing here knows the manager
or the scheduler; they meet in the cluster, through the types of `api_types`.
"""
