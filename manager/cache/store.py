"""What the manager last saw of nodes and NodeMetrics: decoded once, the newest version of each. No I/O.

Level-based: an event only renews the picture and says which node it concerns; decisions are taken from the picture.
Events of one object may overtake one another (a namesake's deletion, an answer to our own patch), so an older version
never replaces a newer one.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import msgspec

from api_types.kubernetes import pods, times
from api_types.node_metric import reader


class NodeMetric(reader.NodeMetric, frozen=True, gc=False):
    """The parts of a NodeMetric that the manager reads; the spec exactly as received."""

    spec: dict[str, Any] | None = None


ViewT = TypeVar("ViewT", bound=pods.Node | NodeMetric)


class Store(Generic[ViewT]):
    """The newest version of each object of one type, by name."""

    def __init__(self, view: type[ViewT]) -> None:
        self._view = view
        self._objects: dict[str, ViewT] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def names(self) -> list[str]:
        """Names of all objects there are."""
        return list(self._objects)

    def get(self, name: str) -> ViewT | None:
        """Object of this name, None where there is none."""
        return self._objects.get(name)

    def differing(self, listed: Mapping[str, str], as_of: str) -> list[str]:
        """Names that a list, versions by name as of a version, knows in a newer version, or does not know any more."""
        behind = [name for name, version in listed.items() if self._version_of(name) < _number(version)]
        gone = [name for name in self._objects if name not in listed and self._version_of(name) <= _number(as_of)]
        return behind + gone

    def _version_of(self, name: str) -> int:
        known = self._objects.get(name)
        return -1 if known is None else _version(known)

    def see(self, wire: Mapping[str, Any]) -> ViewT:
        """Decode an object that exists and remember it if it is news. Raises msgspec.ValidationError."""
        seen: ViewT = msgspec.convert(wire, type=self._view)
        self.remember(seen)
        return seen

    def remember(self, seen: ViewT) -> None:
        """Remember an object unless a newer version of it is known."""
        known = self._objects.get(seen.metadata.name)
        if known is None or _version(seen) >= _version(known):
            self._objects[seen.metadata.name] = seen

    def forget(self, name: str, uid: str | None = None) -> None:
        """Forget an object that is gone; with `uid` only if it is still this very one."""
        known = self._objects.get(name)
        if known is not None and uid in (None, known.metadata.uid):
            del self._objects[name]


def _version(seen: pods.Node | NodeMetric) -> int:
    return _number(seen.metadata.resource_version)


def _number(version: str) -> int:
    return int(version) if version.isdecimal() else 0


class ClusterStore:
    """Nodes and NodeMetrics as last seen."""

    def __init__(self) -> None:
        self.nodes = Store(pods.Node)
        self.node_metrics = Store(NodeMetric)


def created(seen: pods.Node | NodeMetric) -> dt.datetime | None:
    """Return when the object was created, None where that is not known."""
    return times.parse_rfc3339_or_none(seen.metadata.creation_timestamp)
