"""Tests that the registry lists every provider of the package."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from types import ModuleType

from scheduler_plugin.load_watcher import providers
from scheduler_plugin.load_watcher.providers import provider_spec, registry

SUPPORT = {"http_source", "prometheus_queries", "provider", "provider_spec", "registry"}
"""Modules of the package without a provider."""
INTERFACE = ("check", "fetch", "is_healthy", "close")


def provider_names(module: ModuleType) -> list[str]:
    """Return the names of the providers that a module defines."""
    classes = [
        each for _name, each in inspect.getmembers(module, inspect.isclass) if each.__module__ == module.__name__
    ]
    return [each.name for each in classes if all(hasattr(each, method) for method in INTERFACE)]


def test_the_registry_lists_every_provider_module() -> None:
    modules = {module.name for module in pkgutil.iter_modules(providers.__path__)} - SUPPORT
    found = {name: provider_names(importlib.import_module(f"{providers.__name__}.{name}")) for name in modules}
    assert {name: len(names) for name, names in found.items()} == dict.fromkeys(modules, 1)
    assert {name for names in found.values() for name in names} == registry.PROVIDERS.keys()


def test_every_provider_name_has_a_builder_and_required_keys() -> None:
    assert registry.PROVIDERS.keys() == provider_spec.NEEDS.keys()
