"""Limits of Mid pods: one set of rules for the command line, the admission policy and the admission webhook. No I/O."""
