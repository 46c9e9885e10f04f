"""Back-test of predictors on recorded usage: what each would have promised, and what then happened."""
