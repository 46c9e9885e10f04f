"""Known answers of the systems we are compatible with, run through the code that the product runs."""
