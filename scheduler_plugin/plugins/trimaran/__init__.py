"""Trimaran's policies: pack by real load, balance its variation, bound the risk of overcommitment, save power."""
