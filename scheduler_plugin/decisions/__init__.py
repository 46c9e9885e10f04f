"""Scheduling decisions: records, explanations, pages and metrics."""
