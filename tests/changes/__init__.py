"""Apply the changes of docs/contributing/architecture.md to copies of the repository: `python -m tests.changes`."""
