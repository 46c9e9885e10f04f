"""Known results of the compatible systems, checked against the code that the product runs."""
