"""Reading and validating the scheduler's configuration."""
