"""Predictors of installed packages: what they are given, how they are found, and the guard around each call."""
