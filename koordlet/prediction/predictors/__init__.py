"""Predictors, one per module; `registry` is the list of all. No predictor depends on another."""
