"""Tests that the registry lists every provider of the package."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from pathlib import Path
from types import ModuleType
from typing import cast

import pytest

from apiserver_client.session import Session
from scheduler_plugin.load_watcher import providers, records
from scheduler_plugin.load_watcher.providers import provider_spec, registry
from scheduler_plugin.load_watcher.providers.provider import ProviderFailed
from scheduler_plugin.load_watcher.providers.provider_spec import ProviderSpec

SUPPORT = {"provider", "provider_spec", "registry"}
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


@pytest.mark.parametrize("name", [name for name in provider_spec.NEEDS if name not in provider_spec.LOCAL])
async def test_every_server_is_checked_by_the_given_authorities(name: str, tmp_path: Path) -> None:
    file = str(tmp_path / "missing.pem")
    spec = ProviderSpec.model_validate({"type": name, "address": "https://127.0.0.1:9", "caFile": file})
    provider = registry.build(spec, registry.ProviderContext(dict, dict, None))
    with pytest.raises(ProviderFailed, match=r"missing\.pem: "):
        await provider.fetch(records.window_ending_at("5m", 1000))
    await provider.close()


def test_a_mean_is_incomplete_without_its_deviation_only_from_a_source_that_always_has_both() -> None:
    api = cast("Session", object())  # nothing is sent
    context = registry.ProviderContext(dict, dict, api)
    built = [
        registry.build(ProviderSpec(type=name, address="http://127.0.0.1:9"), context) for name in provider_spec.NEEDS
    ]
    with_both = {provider.name for provider in built if provider.has_deviation}
    assert with_both == {provider_spec.PROMETHEUS, provider_spec.INFLUXDB}
