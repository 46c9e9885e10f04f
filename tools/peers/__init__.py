"""Programs of Koordinator and Kueue, for the cases that run the suite beside them."""
