"""Read what `koordctl check` shows. Every function raises errors.ApiServerError where the apiserver does not answer."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from api_types import names
from api_types.kubernetes import times
from apiserver_client import objects, session
from fleet import scheduler_config
from fleet.admission_rules import POLICY_BINDINGS, RULES, WEBHOOKS
from fleet.findings import MANAGER, MID_LIMITS, SCHEDULER, FleetSnapshot, Installation
from fleet.reading import WORKLOADS, Reader


class Right(NamedTuple):
    """A right, in the terms of RBAC."""

    verb: str
    resource: str
    """With its subresource, such as `pods/log`."""
    group: str = ""
    in_namespace: bool = False
    """Whether it is needed in the namespace of the suite only."""
    name: str = ""

    def __str__(self) -> str:
        """Return the right in words."""
        about = f" {self.name}" if self.name else ""
        return f"{self.verb} {self.resource}{about}" + (" in NAMESPACE" if self.in_namespace else "")


def _reads(resource: str, group: str = "") -> Iterator[Right]:
    return (Right(verb, resource, group) for verb in ("get", "list"))


_CONFIG_MAPS: Final = (names.SLO_CONTROLLER_CONFIG, names.LAST_GOOD_CONFIG, *scheduler_config.CONFIG_MAPS)
VIEWER: Final = (
    *_reads("nodes"),
    *_reads("pods"),
    *_reads("namespaces"),
    *_reads(names.NODE_METRIC_PLURAL, names.GROUP),
    Right("list", "priorityclasses", "scheduling.k8s.io"),
    *(Right("get", "configmaps", in_namespace=True, name=name) for name in _CONFIG_MAPS),
    *(Right("list", kind.plural, kind.group, in_namespace=True) for kind in dict.fromkeys(WORKLOADS.values())),
    *(Right("list", rule.plural, rule.group) for rule in RULES),
    *(Right("get", rule.plural, rule.group, name=MID_LIMITS) for rule in (WEBHOOKS, POLICY_BINDINGS[0])),
    *(Right("get", "leases", "coordination.k8s.io", in_namespace=True, name=name) for name in (MANAGER, SCHEDULER)),
    Right("list", "events"),
    Right("get", "pods/log", in_namespace=True),
    Right("create", "pods/portforward", in_namespace=True),
)
"""Rights of the role `koord-viewer` of the chart: what the commands that only read need."""

INSTALLER: Final = (
    Right("create", "namespaces"),
    Right("create", "customresourcedefinitions", "apiextensions.k8s.io"),
    Right("create", "priorityclasses", "scheduling.k8s.io"),
    Right("create", "clusterroles", "rbac.authorization.k8s.io"),
    Right("create", "clusterrolebindings", "rbac.authorization.k8s.io"),
    Right("create", "validatingadmissionpolicies", "admissionregistration.k8s.io"),
    Right("create", "validatingadmissionpolicybindings", "admissionregistration.k8s.io"),
    Right("create", "roles", "rbac.authorization.k8s.io", in_namespace=True),
    Right("create", "rolebindings", "rbac.authorization.k8s.io", in_namespace=True),
    Right("create", "serviceaccounts", in_namespace=True),
    Right("create", "configmaps", in_namespace=True),
    Right("create", "secrets", in_namespace=True),
    Right("create", "services", in_namespace=True),
    Right("create", "daemonsets", "apps", in_namespace=True),
    Right("create", "deployments", "apps", in_namespace=True),
    Right("create", "poddisruptionbudgets", "policy", in_namespace=True),
    Right("create", "jobs", "batch", in_namespace=True),
)
"""Rights that `helm install` needs with the default values; helm keeps its release in a Secret."""


def with_names(rights: Iterable[Right], installed: Installation) -> list[Right]:
    """Return rights to the ConfigMap of the configuration and to Leases by their names in an installation."""
    own = {("configmaps", names.SLO_CONTROLLER_CONFIG): installed.config_map}
    own |= {("leases", part): installed.name(part) for part in (MANAGER, SCHEDULER)}
    return [right._replace(name=own.get((right.resource, right.name), right.name)) for right in rights]


def named(rights: Iterable[Right], namespace: str) -> str:
    """Return rights in words, those of one resource together: `get, list nodes; get leases in monitoring`."""
    verbs: dict[str, list[str]] = {}
    for right in rights:
        what = str(right).removeprefix(f"{right.verb} ").replace("NAMESPACE", namespace)
        verbs.setdefault(what, []).append(right.verb)
    return "; ".join(f"{', '.join(listed)} {what}" for what, listed in verbs.items())


@dataclass(frozen=True)
class CheckInputs:
    """A snapshot, and what only `check` reads. None is what was not read; `snapshot.unread` has the cause."""

    snapshot: FleetSnapshot
    served: Mapping[str, Any] | None = None
    """Schema of NodeMetric as the apiserver serves it; None where it serves none."""
    renewed_again: dt.datetime | None = None
    """Time of the Lease a few seconds later."""
    missing_rights: Sequence[Right] = ()


RENEWAL_SECONDS: Final = 3.0
"""Longer than the time between two renewals of a leader."""


async def read(
    api: session.Session,
    now: dt.datetime,
    namespace: str,
    sleep: Callable[[float], Awaitable[None]],
    candidates: Sequence[Right] = VIEWER,
) -> CheckInputs:
    """Read an installation; the Lease is read twice, because the clock of another machine is not used.

    Of the `candidates` those are returned that the caller lacks.
    """
    reader = Reader(api, now)
    snapshot = await reader.snapshot(namespace)
    installed = snapshot.installation or Installation(namespace)
    missing = await missing_rights(api, with_names(candidates, installed), namespace)
    renewed = None
    if installed.leader:
        await sleep(RENEWAL_SECONDS)
        leader = await reader.lease(namespace, MANAGER, installed.workloads.get(MANAGER))
        renewed = times.parse_rfc3339_or_none(leader.renew_time)
    served = await read_served(reader)
    return CheckInputs(dataclasses.replace(snapshot, unread=tuple(reader.unread)), served, renewed, missing)


async def read_served(reader: Reader) -> Mapping[str, Any] | None:
    """Return the schema of NodeMetric as the apiserver serves it; None where it serves none."""
    from manager.node_metric import controller  # noqa: PLC0415  # half a second, which other commands do not pay

    with reader.attempt("openapi"):
        return await controller.read(reader.api)
    return None


def dropped(served: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the fields of this project that the served CRD drops."""
    from manager.node_metric import controller  # noqa: PLC0415

    return controller.dropped_fields(served) if served is not None else ()


async def missing_rights(api: session.Session, candidates: Iterable[Right], namespace: str) -> list[Right]:
    """Return the rights that the caller lacks; every authenticated client may ask for its own."""
    return [right for right in candidates if not await _has(api, right, namespace)]


async def _has(api: session.Session, right: Right, namespace: str) -> bool:
    plural, _, subresource = right.resource.partition("/")
    status = await objects.access_review(
        api, verb=right.verb, group=right.group, resource=plural, subresource=subresource, name=right.name,
        **({"namespace": namespace} if right.in_namespace else {}),
    )  # fmt: skip
    return bool(status.get("allowed"))
