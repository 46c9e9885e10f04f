"""`koordctl bundle`: one file with what an issue needs, and without secrets."""
