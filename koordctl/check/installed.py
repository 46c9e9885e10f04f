"""Checks that `koordctl check` alone makes: rights, the CRD, a Lease that is renewed, and a cluster before. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from api_types.kubernetes import times
from fleet import checks
from fleet.checks import CheckVerdict, Verdict, failed, passed, skipped
from fleet.findings import AGENT, MANAGER, SCHEDULER, Installation
from koordctl.check import reading
from koordctl.check.reading import CheckInputs, PreInstallInputs

PARTS: Final = {"agent": AGENT, "manager": MANAGER, "scheduler": SCHEDULER}


def results(state: CheckInputs, required: Collection[str], crd_dropped: Sequence[str]) -> Iterator[CheckVerdict]:
    """Yield the results of all checks; `required` are the workloads that have to be installed."""
    installed = state.snapshot.installation or Installation("")
    if state.missing_rights:
        yield failed("Permissions", f"you may not: {reading.named(state.missing_rights, installed.namespace)}")
    else:
        yield passed("Permissions", "you may read everything that the commands show")
    yield from _crd(state, crd_dropped)
    for result in checks.results(state.snapshot, required):
        is_held = result.kind.code == "Leader" and result.verdict is Verdict.PASSED
        yield _leader(state, installed) if is_held else result


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


def pre_install_results(state: PreInstallInputs, namespace: str, crd_dropped: Sequence[str]) -> Iterator[CheckVerdict]:
    """Yield the results of the checks before an installation."""
    yield checks.kubernetes(state.kubernetes)
    yield _pod_security(state, namespace)
    yield _other(state)
    if state.missing_rights:
        yield failed("InstallPermissions", f"you may not: {reading.named(state.missing_rights, namespace)}")
    else:
        yield passed("InstallPermissions", "you may create everything that the chart installs")
    if state.served is not None and crd_dropped:
        yield failed("NodeMetricFieldsDropped", f"the CRD that is installed drops {', '.join(crd_dropped)}")


def _pod_security(state: PreInstallInputs, namespace: str) -> CheckVerdict:
    if state.labels is None:
        return skipped("PodSecurity", f"namespace {namespace} does not exist yet, or may not be read")
    level = state.labels.get(_ENFORCED, "")
    if level in ("baseline", "restricted"):
        return failed("PodSecurity", f"namespace {namespace} enforces {level}; the agent mounts folders of the host")
    return passed("PodSecurity", f"namespace {namespace} enforces {level or 'nothing of its own'}")


def _other(state: PreInstallInputs) -> CheckVerdict:
    others = [
        what
        for what, labels in state.owned.items()
        if labels.get(_PART_OF) != _OWN and not labels.get(_CHART, "").startswith(f"{_OWN}-")
    ]
    if others:
        return failed("OtherKoordinator", ", ".join(others))
    if state.unread:
        return skipped("OtherKoordinator", f"not read: {'; '.join(state.unread)}")
    return passed("OtherKoordinator", "no object of another installation")
