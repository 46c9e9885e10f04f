"""Check, render and compare configurations."""
