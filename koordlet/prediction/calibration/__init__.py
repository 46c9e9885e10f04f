"""Calibration: how far the past forecasts of this node fell short decides how much is added to the next one.

Pure arithmetic on values passed in, the time included.
"""
