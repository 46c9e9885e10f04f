"""A real metrics-server for tests: built from its Go module once (`build`), run beside a cluster (`server`)."""
