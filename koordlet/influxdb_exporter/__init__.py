"""InfluxDB exporter: writes usage and predictions of the node to InfluxDB 2 where configured. The agent never reads it.

`exporter` creates lines and is the interface to the agent, the thread of `writer` sends what its bounded queue holds
through `client`. No decision and no tick waits for any of it.
"""
