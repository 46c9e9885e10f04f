"""`koordctl check`: whether the suite works, whether the caller may, and what to do."""
