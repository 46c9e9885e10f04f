"""Leader election by Lease, with client-go's rules."""
