"""Recording and explaining scheduling decisions."""
