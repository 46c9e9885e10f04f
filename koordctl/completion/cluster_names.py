"""Read names of objects for a completion: in a few seconds at most, and none where they cannot be read."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from argparse import Namespace
from collections.abc import Sequence
from typing import Final

import msgspec

from apiserver_client import decoding, errors, objects, resources, session
from koordctl.cli import command
from koordctl.completion.words import NAMESPACES, NODES, PODS

_SECONDS: Final = 3.0
_MOST: Final = 500
_RESOURCES: Final = {
    NODES: resources.NODES,
    PODS: resources.PODS,
    NAMESPACES: resources.Resource("", "v1", "namespaces", "Namespace", namespaced=False),
}
_CONNECTION_FLAGS: Final = {"kubeconfig": "--kubeconfig", "context": "--context", "user": "--as"}


class _Metadata(msgspec.Struct, frozen=True):
    name: str = ""


class _Named(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()


def of(kind: str, before: Sequence[str], partial: str) -> list[str]:
    """Return names of a kind, by the flags of the connection among the words before."""
    try:
        return asyncio.run(_read(kind, before, partial))
    except (errors.ApiServerError, command.WrongUsage, TimeoutError, ValueError):
        return []


async def _read(kind: str, before: Sequence[str], partial: str) -> list[str]:
    given = {name: _value(before, flag) for name, flag in _CONNECTION_FLAGS.items()}
    options = Namespace(**{**given, "user": given["user"] or "", "groups": [], "request_timeout": _SECONDS})
    async with asyncio.timeout(_SECONDS), command.connected(options) as api:
        if kind != PODS:
            return await _listed(api, kind, None)
        if namespace := _value(before, "--namespace") or _value(before, "-n"):
            return await _listed(api, kind, namespace)
        namespace, slash, _ = partial.partition("/")
        if not slash:
            return [f"{name}/" for name in await _listed(api, NAMESPACES, None)]
        return [f"{namespace}/{name}" for name in await _listed(api, kind, namespace)]


async def _listed(api: session.Session, kind: str, namespace: str | None) -> list[str]:
    found = list[str]()
    items = objects.list_items(api, _RESOURCES[kind], namespace=namespace, parameters={}, page_size=_MOST)
    async with contextlib.aclosing(items):
        async for item in items:
            if isinstance(item, decoding.PageMetadata):
                break
            found.append(msgspec.json.decode(item, type=_Named).metadata.name)
    return found


def _value(before: Sequence[str], flag: str) -> str | None:
    """Return the last value of a flag."""
    values = [value for name, value in itertools.pairwise(before) if name == flag]
    return values[-1] if values else None
