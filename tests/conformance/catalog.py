"""List the modules that map conformance functions to the product; `not_mapped` has the others."""

from __future__ import annotations

import importlib
from types import ModuleType

MODULES = (
    "koordlet_adapters",
    "node_adapters",
    "prediction_adapters",
    "reclaimable_adapters",
    "manager_adapters",
    "manager_differences",
    "mid_pods_adapters",
    "loadaware_adapters",
    "loadaware_differences",
    "trimaran_formula_adapters",
    "trimaran_policy_adapters",
    "trimaran_config_adapters",
    "load_watcher_adapters",
    "load_watcher_provider_adapters",
)


def modules() -> list[ModuleType]:
    """Every adapter module."""
    return [importlib.import_module(f"tests.conformance.{name}") for name in MODULES]
