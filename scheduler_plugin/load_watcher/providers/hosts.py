"""Hosts as monitoring services name them: SignalFx and Datadog know hosts of many clusters, not nodes of one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Hosts:
    """Which hosts are ours."""

    name_suffix: str = ""
    cluster_name: str = ""


def node_name(host: str) -> str:
    """Name of a host up to the first dot."""
    return host.partition(".")[0]
