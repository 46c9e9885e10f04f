"""Pods between an attempt to schedule them and their binding: refused ones to retry, placed ones to count."""
