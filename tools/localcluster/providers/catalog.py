"""What a provider does, and the list of all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from tools.images import building
from tools.localcluster.access import Cluster
from tools.localcluster.providers import existing, kind, local


class Provider(Protocol):
    """One way to have a cluster. All methods raise ClusterProblem with one line for the user."""

    def up(self) -> Cluster:
        """Start what does not run yet and wait until pods can run."""
        ...

    def down(self) -> list[str]:
        """End it. Returns what could not be taken away, a line each."""
        ...

    def exists(self) -> bool:
        """Whether there is something that `down` would end."""
        ...

    def status(self) -> Mapping[str, str]:
        """Part of the cluster -> "ok", or what is wrong with it."""
        ...

    def cluster(self) -> Cluster:
        """How the running cluster is reached."""
        ...

    def builder(self) -> building.Builder:
        """What builds images for this provider."""
        ...

    def load(self, archives: Sequence[building.Archive]) -> None:
        """Put images where the cluster's nodes find them."""
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
}
