"""Load and validate the configuration of the plugins."""
