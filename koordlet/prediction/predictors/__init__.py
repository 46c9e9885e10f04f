"""Predictors; `registry` is the list of all. No predictor depends on another."""
