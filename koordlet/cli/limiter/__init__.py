"""Limits of Mid pods that stay BestEffort: a program of its own writes them to cgroups."""
