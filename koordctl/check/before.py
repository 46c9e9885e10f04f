"""Checks before an installation (`koordctl check --pre`). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from koordctl.check import rights
from koordctl.check.installed import kubernetes
from koordctl.check.results import Result, found, passed, skipped
from koordctl.check.seen import SeenBefore

_ENFORCED: Final = "pod-security.kubernetes.io/enforce"
_PART_OF: Final = "app.kubernetes.io/part-of"  # which nameOverride of the chart replaces
_CHART: Final = "helm.sh/chart"
_OWN: Final = "koord-suite"


def results(seen: SeenBefore, namespace: str, crd_dropped: Sequence[str]) -> Iterator[Result]:
    """Yield the results of all checks."""
    yield kubernetes(seen.kubernetes)
    yield _pod_security(seen, namespace)
    yield _other(seen)
    if seen.missing_rights:
        yield found("InstallPermissions", f"you may not: {rights.named(seen.missing_rights, namespace)}")
    else:
        yield passed("InstallPermissions", "you may create everything that the chart installs")
    if seen.served is not None and crd_dropped:
        yield found("NodeMetricFieldsDropped", f"the CRD that is installed drops {', '.join(crd_dropped)}")


def _pod_security(seen: SeenBefore, namespace: str) -> Result:
    if seen.labels is None:
        return skipped("PodSecurity", f"namespace {namespace} does not exist yet, or may not be read")
    level = seen.labels.get(_ENFORCED, "")
    if level in ("baseline", "restricted"):
        return found("PodSecurity", f"namespace {namespace} enforces {level}; the agent mounts folders of the host")
    return passed("PodSecurity", f"namespace {namespace} enforces {level or 'nothing of its own'}")


def _other(seen: SeenBefore) -> Result:
    others = [what for what, labels in seen.owned.items() if not _is_own(labels)]
    if others:
        return found("OtherKoordinator", ", ".join(others))
    if seen.unread:
        return skipped("OtherKoordinator", f"not read: {'; '.join(seen.unread)}")
    return passed("OtherKoordinator", "no object of another installation")


def _is_own(labels: Mapping[str, str]) -> bool:
    """Return whether an object is of this chart."""
    return labels.get(_PART_OF) == _OWN or labels.get(_CHART, "").startswith(f"{_OWN}-")
