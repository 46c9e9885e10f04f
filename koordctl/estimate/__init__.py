"""`koordctl estimate`: what Mid resources could give, before anything is installed."""
