"""The metric that names the version of a program, for joins and for the programs that a Prometheus knows."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Gauge

from component_base.version import VERSION

_TEXT: Final = "1, with the version of the program."


def register(registry: CollectorRegistry, program: str) -> None:
    """Add `<program>_build_info`."""
    Gauge(f"{program}_build_info", _TEXT, ["version"], registry=registry).labels(VERSION).set(1)
