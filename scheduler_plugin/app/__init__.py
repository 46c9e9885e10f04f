"""The process of the extender, and its debug pages."""
