"""End-to-end tests on a real cluster: actions of a user, and the resulting state of the cluster."""
