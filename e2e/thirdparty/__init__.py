"""Third-party servers that cases run against: InfluxDB, metrics-server, Prometheus."""
