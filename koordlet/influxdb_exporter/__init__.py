"""The history of a node's usage and predictions, written to InfluxDB 2 where somebody wants it. Nothing reads it here.

One way: `points` makes lines of what is known, `point_queue` holds a bounded number of them, the one thread of `writer`
sends them through `influxdb`; `recorder` is the face to the agent. No decision and no tick waits for any of it.
"""
