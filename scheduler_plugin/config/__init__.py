"""Configuration of the plugins: loading and validation."""
