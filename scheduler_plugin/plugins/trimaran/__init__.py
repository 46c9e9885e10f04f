"""Trimaran's plugins: pack by real load, balance its variation, limit the risk of overcommitment, save power."""
