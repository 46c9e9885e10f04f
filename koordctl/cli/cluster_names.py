"""Read names of objects for a completion: in a few seconds at most, and none where they cannot be read."""

from __future__ import annotations

import asyncio
import contextlib
import re
from argparse import Namespace
from collections.abc import Mapping
from typing import Any, Final

import click
import msgspec

from apiserver_client import decoding, errors, objects, resources, session
from koordctl.cli import command

_SECONDS: Final = 3.0
_MOST: Final = 500
_HARMLESS: Final = re.compile(r"[A-Za-z0-9][-A-Za-z0-9._/:]*", re.ASCII)
"""Names with other characters are left out: a shell may interpret them."""
_NAMESPACES: Final = resources.Resource("", "v1", "namespaces", "Namespace", namespaced=False)
_RESOURCES: Final = {"nodes": resources.NODES, "pods": resources.PODS, "namespaces": _NAMESPACES}


class _NameOnly(msgspec.Struct, frozen=True):
    name: str = ""


class _Named(msgspec.Struct, frozen=True):
    metadata: _NameOnly = _NameOnly()


def complete(resource: str, options: Mapping[str, Any], partial: str) -> list[str]:
    """Return names that begin with the partial one, by the flags of the connection."""
    try:
        names = asyncio.run(_read(resource, options, partial))
    except (errors.ApiServerError, click.ClickException, TimeoutError, ValueError):
        return []
    return [name for name in names if name.startswith(partial) and _HARMLESS.fullmatch(name)]


async def _read(resource: str, options: Mapping[str, Any], partial: str) -> list[str]:
    to = Namespace(**{**options, "request_timeout": _SECONDS})
    async with asyncio.timeout(_SECONDS), command.connected(to) as api:
        if resource != "pods":
            return await _listed(api, resource, None)
        if namespace := options.get("namespace"):
            return await _listed(api, resource, namespace)
        namespace, slash, _ = partial.partition("/")
        if not slash:
            return [f"{name}/" for name in await _listed(api, "namespaces", None)]
        return [f"{namespace}/{name}" for name in await _listed(api, resource, namespace)]


async def _listed(api: session.Session, resource: str, namespace: str | None) -> list[str]:
    names = list[str]()
    items = objects.list_items(api, _RESOURCES[resource], namespace=namespace, parameters={}, page_size=_MOST)
    async with contextlib.aclosing(items):
        async for item in items:
            if isinstance(item, decoding.PageMetadata):
                break
            names.append(msgspec.json.decode(item, type=_Named).metadata.name)
    return names
