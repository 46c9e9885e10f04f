"""Dashboards for Grafana: one list of panels for each, and the JSON that is generated from it."""
