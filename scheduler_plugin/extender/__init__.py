"""The extender's HTTP server, wire format and verbs."""
