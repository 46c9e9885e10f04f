"""Complete command lines in shells and under kubectl."""
