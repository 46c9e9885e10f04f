"""A real InfluxDB 2 for tests: built from Go modules and Rust crates once (`build`), run as a child (`server`)."""
