"""The protocol of a provider, and the registry of all providers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from tools.localcluster.access import Cluster
from tools.localcluster.image_archives import Archive
from tools.localcluster.providers import existing, kind, local, nodes


class Provider(Protocol):
    """One way to have a cluster. All methods raise ClusterProblem with one line for the user."""

    def up(self) -> Cluster:
        """Start what does not run yet and wait until pods can run."""
        ...

    def down(self) -> list[str]:
        """End the cluster. Return what could not be removed, one line each."""
        ...

    def exists(self) -> bool:
        """Return whether there is something that `down` would end."""
        ...

    def status(self) -> Mapping[str, str]:
        """Return each part of the cluster with "ok" or its problem."""
        ...

    def cluster(self) -> Cluster:
        """Return access to the running cluster."""
        ...

    def load(self, archives: Sequence[Archive]) -> None:
        """Put images onto the cluster's nodes."""
        ...

    def host_address(self) -> str:
        """Return the address at which pods reach this machine, and a program of it may listen."""
        ...

    def shell(self, name: str, script: str) -> str:
        """Run a shell script on a node and return what it prints."""
        ...

    def stop(self, component: str) -> None:
        """Stop a component, for example `kubelet`."""
        ...

    def start(self, component: str) -> None:
        """Start a component that `stop` stopped, and wait until it is ready."""
        ...


PROVIDERS: dict[str, Provider] = {
    "local": local.Local(),
    "kind": kind.Kind(),
    "existing": existing.Existing(),
    "nodes": nodes.Nodes(),
}
