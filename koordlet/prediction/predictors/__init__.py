"""One predictor a file; `catalog` is the list of all. No predictor knows another."""
