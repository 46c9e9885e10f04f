"""Tools of the project that import nothing of the product."""
