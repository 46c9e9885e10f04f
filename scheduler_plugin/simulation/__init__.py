"""What if: pods arrive in a model of a cluster and are placed by the product's own decisions, or by none of them.

Pure but for `recording` (files, the apiserver) and `simulate` (the terminal): the clock is simulated.
"""
