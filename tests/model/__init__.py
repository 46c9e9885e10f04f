"""Agent, manager and Mid guard together: a fake clock, an API server in memory, random users, tenants and faults."""
