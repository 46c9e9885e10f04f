"""The arithmetic of Trimaran's policies, over arrays of nodes; no state, no clock, no configuration objects."""
