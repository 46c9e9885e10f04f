"""Frozen corpora: documents in -> decisions out, made once from the product and held since."""
