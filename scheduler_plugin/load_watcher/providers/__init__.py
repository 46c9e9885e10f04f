"""Sources of measurements: one module for each provider (`provider.Provider`), listed in `registry`."""
