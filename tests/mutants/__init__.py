"""Change one line of the product at a time, and see whether a test fails: `make mutants`."""
