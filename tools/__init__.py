"""Tools of the project. They import nothing of the product."""
