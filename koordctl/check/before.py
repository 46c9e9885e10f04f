"""Checks before an installation (`koordctl check --pre`). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from koordctl.check import rights
from koordctl.check.inputs import PreInstallInputs
from koordctl.check.installed import kubernetes
from koordctl.check.results import CheckVerdict, failed, passed, skipped

_ENFORCED: Final = "pod-security.kubernetes.io/enforce"
_PART_OF: Final = "app.kubernetes.io/part-of"  # which nameOverride of the chart replaces
_CHART: Final = "helm.sh/chart"
_OWN: Final = "koord-suite"


def results(state: PreInstallInputs, namespace: str, crd_dropped: Sequence[str]) -> Iterator[CheckVerdict]:
    """Yield the results of all checks."""
    yield kubernetes(state.kubernetes)
    yield _pod_security(state, namespace)
    yield _other(state)
    if state.missing_rights:
        yield failed("InstallPermissions", f"you may not: {rights.named(state.missing_rights, namespace)}")
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
    others = [what for what, labels in state.owned.items() if not _is_own(labels)]
    if others:
        return failed("OtherKoordinator", ", ".join(others))
    if state.unread:
        return skipped("OtherKoordinator", f"not read: {'; '.join(state.unread)}")
    return passed("OtherKoordinator", "no object of another installation")


def _is_own(labels: Mapping[str, str]) -> bool:
    """Return whether an object is of this chart."""
    return labels.get(_PART_OF) == _OWN or labels.get(_CHART, "").startswith(f"{_OWN}-")
