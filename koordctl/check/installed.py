"""Checks that `koordctl check` alone makes: rights, the CRD, a Lease that is renewed, and a cluster before."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from api_types.kubernetes import times
from api_types.kubernetes.pods import AnyObject
from apiserver_client import objects, resources
from fleet import checks
from fleet.checks import CheckVerdict, Verdict, failed, passed, skipped
from fleet.findings import AGENT, MANAGER, SCHEDULER, Installation
from fleet.reading import PRIORITY_CLASSES, Reader
from koordctl.check import reading
from koordctl.check.reading import CheckInputs, Right

PARTS: Final = {"agent": AGENT, "manager": MANAGER, "scheduler": SCHEDULER}


def results(state: CheckInputs, required: Collection[str], crd_dropped: Sequence[str]) -> Iterator[CheckVerdict]:
    """Yield the results of all checks; `required` are the workloads that have to be installed."""
    installed = state.snapshot.installation or Installation("")
    may = "you may read everything that the commands show"
    yield _rights("Permissions", state.missing_rights, installed.namespace, may)
    yield from _crd(state, crd_dropped)
    for result in checks.results(state.snapshot, required):
        is_held = result.kind.code == "Leader" and result.verdict is Verdict.PASSED
        yield _leader(state, installed) if is_held else result


def _rights(code: str, missing: Sequence[Right], namespace: str, may: str) -> CheckVerdict:
    return failed(code, f"you may not: {reading.named(missing, namespace)}") if missing else passed(code, may)


def _crd(state: CheckInputs, dropped: Sequence[str]) -> Iterator[CheckVerdict]:
    if state.served is None:
        why = state.snapshot.why_unread("openapi")
        code = "CustomResourceDefinition"
        yield skipped(code, why) if why else failed(code, "it is not served")
        return
    yield passed("CustomResourceDefinition", "the CRD of NodeMetric is served")
    if dropped:
        yield failed("NodeMetricFieldsDropped", f"the CRD drops {', '.join(dropped)}; Mid resources stay correct")
    else:
        yield passed("NodeMetricFieldsDropped", "the CRD has every field")


def _leader(state: CheckInputs, installed: Installation) -> CheckVerdict:
    """Check that a leader renews the Lease, by two reads: the clock of another machine is not used."""
    if state.renewed_again is None or state.renewed_again == installed.renewed:
        since = times.format_rfc3339(installed.renewed) if installed.renewed else "ever"
        return failed("Leader", f"{installed.leader} has not renewed the Lease since {since}")
    return passed("Leader", f"{installed.leader} leads, and renewed the Lease meanwhile")


_ENFORCED: Final = "pod-security.kubernetes.io/enforce"
_PART_OF: Final = "app.kubernetes.io/part-of"  # which nameOverride of the chart replaces
_CHART: Final = "helm.sh/chart"
_OWN: Final = "koord-suite"
_OWNED: Final = (
    (resources.CUSTOM_RESOURCE_DEFINITIONS, "nodemetrics.slo.koordinator.sh"),
    (PRIORITY_CLASSES, "koord-prod"),
    (PRIORITY_CLASSES, "koord-mid"),
    (resources.DAEMON_SETS, AGENT),
    (resources.DEPLOYMENTS, MANAGER),
)
"""Objects that the chart creates and that Koordinator's chart has too."""


async def pre_install_results(reader: Reader, namespace: str) -> list[CheckVerdict]:
    """Return the results of the checks before an installation. Raises errors.ApiServerError."""
    labels: Mapping[str, str] | None = None
    others = list[str]()
    with reader.attempt("namespaces"):
        read = await objects.get(reader.api, resources.NAMESPACES, namespace, decode=AnyObject)
        labels = read.metadata.labels or {}
    for resource, name in _OWNED:
        with reader.attempt(f"{resource.plural}/{name}"):
            where = namespace if resource.namespaced else None
            owned = await objects.get(reader.api, resource, name, namespace=where, decode=AnyObject)
            marks = owned.metadata.labels or {}
            if marks.get(_PART_OF) != _OWN and not marks.get(_CHART, "").startswith(f"{_OWN}-"):
                others.append(f"{resource.kind} {name}")
    missing = await reading.missing_rights(reader.api, reading.INSTALLER, namespace)
    dropped = reading.dropped(await reading.read_served(reader))
    unread = [unread.what for unread in reader.unread if unread.is_right]
    may = "you may create everything that the chart installs"
    verdicts = [checks.kubernetes(await reader.kubernetes()), _pod_security(labels, namespace), _other(others, unread)]
    verdicts.append(_rights("InstallPermissions", missing, namespace, may))
    if dropped:
        verdicts.append(failed("NodeMetricFieldsDropped", f"the CRD that is installed drops {', '.join(dropped)}"))
    return verdicts


def _pod_security(labels: Mapping[str, str] | None, namespace: str) -> CheckVerdict:
    if labels is None:
        return skipped("PodSecurity", f"namespace {namespace} does not exist yet, or may not be read")
    level = labels.get(_ENFORCED, "")
    if level in ("baseline", "restricted"):
        return failed("PodSecurity", f"namespace {namespace} enforces {level}; the agent mounts folders of the host")
    return passed("PodSecurity", f"namespace {namespace} enforces {level or 'nothing of its own'}")


def _other(others: Sequence[str], unread: Sequence[str]) -> CheckVerdict:
    if others:
        return failed("OtherKoordinator", ", ".join(others))
    if unread:
        return skipped("OtherKoordinator", f"not read: you may not read {', '.join(unread)}")
    return passed("OtherKoordinator", "no object of another installation")
