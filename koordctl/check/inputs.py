"""What `koordctl check` has read. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from api_types.kubernetes import pods
from fleet import wire
from fleet.snapshot import FleetSnapshot
from koordctl.check.rights import Right


@dataclass(frozen=True)
class CheckInputs:
    """A snapshot, and what only `check` reads. None is what was not read; `snapshot.unread` has the cause."""

    snapshot: FleetSnapshot
    served: Mapping[str, Any] | None = None
    """Schema of NodeMetric as the apiserver serves it; None where it serves none."""
    renewed_again: dt.datetime | None = None
    """Time of the Lease a few seconds later."""
    priority_classes: Sequence[wire.WirePriorityClass] | None = None
    waiting_mid_pods: Sequence[pods.Pod] | None = None
    missing_rights: Sequence[Right] = ()


@dataclass(frozen=True)
class PreInstallInputs:
    """What `check --pre` reads, before an installation."""

    kubernetes: str
    served: Mapping[str, Any] | None
    missing_rights: Sequence[Right]
    labels: Mapping[str, str] | None
    """Labels of the namespace; None where it does not exist, or may not be read."""
    owned: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Labels of objects that the chart would create and that exist already, by `kind name`."""
    unread: Sequence[str] = ()
