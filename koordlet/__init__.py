"""The node agent: measures usage of its node, predicts the peak of Prod pods, and publishes a NodeMetric.

Data flows one way: collectors -> metric cache -> prediction -> NodeMetric report. The agent does not know the manager
or the scheduler; they meet in the cluster, through the types of `api_types`.
"""
