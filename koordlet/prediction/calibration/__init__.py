"""Calibration: adds the margin by which earlier forecasts of this node were too low.

Pure arithmetic on values passed in, the time included.
"""
