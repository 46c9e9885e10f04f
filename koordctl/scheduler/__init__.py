"""Check and simulate configurations of the scheduler plugin."""
