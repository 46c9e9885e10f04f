"""`koordctl gain`: what Mid resources brought, and what they risked."""
