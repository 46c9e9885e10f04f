"""`koordctl export`: files for other tools, which the wheel brings along."""
