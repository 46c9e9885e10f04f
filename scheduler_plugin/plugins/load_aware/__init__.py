"""The LoadAware plugin: arguments, thresholds, filter and score."""
