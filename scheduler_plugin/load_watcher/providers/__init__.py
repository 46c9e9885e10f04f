"""Where measurements come from: one module a provider, all behind `provider.Provider`, listed in `catalog`."""
