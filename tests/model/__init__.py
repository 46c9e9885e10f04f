"""Agent, manager and Mid guard together, on a fake clock and an API server in memory, under random faults and tenants."""
