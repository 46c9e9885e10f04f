"""Check the words of the project against a ban list: `python -m tools.style`."""
