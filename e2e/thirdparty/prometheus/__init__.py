"""A real Prometheus and a real node_exporter for tests: Debian's packages unpacked (`packages`), run as children."""
