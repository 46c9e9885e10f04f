"""Tests of the chart that need no cluster."""
