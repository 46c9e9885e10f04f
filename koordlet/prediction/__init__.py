"""Prediction: decayed statistics of each series of the node, predictors of peaks, and a checkpoint of the statistics.

Everything is arithmetic on values passed in, the time included; only `checkpoint` and `checkpointer` use a disk. This
package measures no usage, does not access the API server and does not depend on the NodeMetric type.
"""
