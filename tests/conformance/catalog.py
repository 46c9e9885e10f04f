"""The one list of modules that map conformance functions to the product, and of functions that stay unmapped."""

from __future__ import annotations

import importlib
from types import ModuleType

MODULES = ("koordlet_adapters", "manager_adapters", "loadaware_adapters")


def modules() -> list[ModuleType]:
    """Every adapter module."""
    return [importlib.import_module(f"tests.conformance.{name}") for name in MODULES]
