"""Formulas of Trimaran's plugins over arrays of nodes; without state, clock or configuration objects."""
