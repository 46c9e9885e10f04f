"""Command line of the operator of a cluster: `koordctl`, also found by kubectl as `kubectl koord`."""
