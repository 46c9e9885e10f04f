"""InfluxDB exporter: writes usage and predictions of the node to InfluxDB 2 where configured. The agent never reads it.

`points` creates lines, `queue` holds a bounded number of them, the thread of `writer` sends them through `client`, and
`exporter` is the interface to the agent. No decision and no tick waits for any of it.
"""
