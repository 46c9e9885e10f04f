"""What each series of this node will need at its peak: decayed statistics, predictors, and a checkpoint of both.

Everything here is arithmetic on values passed in, `now` included; only `checkpoint` touches a disk. Nothing in this
package measures usage, talks to the apiserver or knows what a NodeMetric looks like.
"""
