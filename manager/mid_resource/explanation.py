"""Explain a node's status annotation in sentences, one for each term, or why the node has no Mid. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from api_types import names
from api_types.node_metric.mid_resource import Source
from api_types.node_metric.mid_status import Line, MidStatus
from manager.cache import store
from manager.mid_resource import calculator
from manager.mid_resource.decision import Decision
from manager.mid_resource.reasons import CLOSED_TEXTS, STATUS, TEXTS, Reason, Status

_REPORT: Final = "NodeMetric status"
_STRATEGY: Final = "NodeMetric spec.midColocationPolicy"
_FORMULA: Final = "calculated"
_PODS: Final = "the node's pods, listed once"
_USAGE: Final = f"{_REPORT}.usage, or capacity minus nodeMetric.nodeUsage"
_NODE_STATUS: Final = "Node status.allocatable and status.capacity"
_REQUESTS: Final[Mapping[str, str]] = {
    "pods": _PODS,
    "unknown": "not known, because the list of the node's pods failed; assumed",
}
_CLOSED: Final[Mapping[str, str]] = {code.value: text for code, text in CLOSED_TEXTS.items()}
_GIB: Final = 1 << 30


@dataclass(frozen=True)
class Term:
    """One term of one resource, in milli-cores, bytes or percent."""

    term: str
    value: int
    sentence: str
    source: str
    """Source of the value."""
    time: str
    """Time of the value."""


@dataclass(frozen=True)
class Resource:
    """One Mid resource; `published` is its value on the node, None where the key is absent."""

    published: int | None
    terms: tuple[Term, ...]


@dataclass(frozen=True)
class Explanation:
    """Explanation of a node's Mid resources. Times in RFC 3339, empty where there is none."""

    node: str
    status: str
    reason: str
    text: str
    detail: str
    since: str
    written: str
    sample: str
    resources: dict[str, Resource]
    newest_reason: str = ""
    """Reason code for the newest report, where it differs from the last write."""
    newest_text: str = ""
    newest_detail: str = ""
    shadow: bool = False
    """Whether the terms are those of `midPublish: shadow`, which writes nothing to the node."""
    closed: str = ""
    """Why the node accepts no new Mid pod, whatever is calculated; empty where it does."""
    eviction: tuple[str, ...] = ()
    """What was evicted from the node, and what would be next, as sentences."""


def explain(node: store.Node, decided: Decision | None, shadow: MidStatus | None = None) -> Explanation:
    """Combine the node's status annotation with the decision on its newest report.

    `decided` is None where the policy of the node is not known. `shadow` is the annotation that a node in shadow would
    have.
    """
    written, published = node.mid_status, calculator.published_on(node)
    resources = {
        mid: Resource(published.allocatable.get(mid), tuple(_terms(mid, written or shadow, is_shadow=written is None)))
        for mid in names.MID_RESOURCES
    }
    head = written or shadow or _unwritten(decided)
    newest = decided if written and decided and _is_news(decided, written) else None
    return Explanation(
        node=node.metadata.name,
        status=head.status,
        reason=head.reason,
        text=head.text,
        detail=head.detail,
        since=head.since,
        written=head.time,
        sample=head.sample,
        resources=resources,
        newest_reason=newest.reason if newest else "",
        newest_text=TEXTS[newest.reason] if newest else "",
        newest_detail=newest.detail if newest else "",
        shadow=written is None and shadow is not None,
        closed=_CLOSED.get(head.closed, head.closed),
    )


def _unwritten(decided: Decision | None) -> MidStatus:
    """Return the head of the explanation of a node that was never written."""
    reason = decided.reason if decided else Reason.NO_CONFIGURATION
    detail = decided.detail if decided else ""
    return MidStatus(time="", reason=reason, status=STATUS[reason], text=TEXTS[reason], detail=detail)


def _is_news(decided: Decision, written: MidStatus) -> bool:
    """Check whether a decision differs from the last write; the source of a calculated value is not compared."""
    if STATUS[decided.reason] is Status.CALCULATED:
        return written.status != Status.CALCULATED
    return written.reason != decided.reason


class _TermText(NamedTuple):
    """A field of a line, its sentence, and the source of its value."""

    field: str
    sentence: str
    source: str


def _term_texts(mid: str, line: Line, requests_from: str) -> Iterator[_TermText]:
    native = "CPU" if mid == names.MID_CPU else "Memory"
    requests = _REQUESTS.get(requests_from, f"{_REPORT}.allocated")
    whole = "capacity" if line.source == Source.STATIC else "allocatable"
    yield _TermText("allocatable", "The node lets pods request {}.", "Node status.allocatable")
    yield _TermText(
        "reserved", "Its reservation holds {} back.", f"Node annotation {names.ANNOTATION_NODE_RESERVATION}"
    )
    yield _TermText("capacity", "The node has {}.", "Node status.capacity")
    yield _TermText("allocated_prod", "Prod pods request {}.", requests)
    yield _TermText("peak_prod", "Prod pods are predicted to need {} at most.", f"{_REPORT}.prodPeakMetric")
    yield _TermText("reclaim_ratio_percent", "Counted of the Prod requests: {}.", f"{_STRATEGY}.midReclaimRatioPercent")
    yield _TermText(
        "static_percent", "Static mode publishes {} of the capacity.", f"{_STRATEGY}.midStatic{native}ReservedPercent"
    )
    yield _TermText("reclaimable", *_RECLAIMABLE.get(line.source, _RECLAIMABLE[""]))
    yield _TermText("threshold_percent", f"The cap is {{}} of the {whole}.", f"{_STRATEGY}.mid{native}ThresholdPercent")
    yield _TermText("cap", "The cap in numbers: {}.", _FORMULA)
    yield _TermText("unallocated", "Requested by no Prod pod: {}.", _FORMULA)
    yield _TermText("unallocated_percent", "{} of that is added.", f"{_STRATEGY}.midUnallocatedPercent")
    yield _TermText("unallocated_share", "That adds {}.", _FORMULA)
    yield _TermText("unused", "Nothing but Mid uses {}.", _USAGE)
    yield _TermText("calculated", "The formula gives {}; new Mid pods are admitted up to it.", _FORMULA)
    yield _TermText("allocated_mid", "Mid pods request {}.", requests)
    yield _TermText("bound_before", "Of that, {} were bound before Mid began to shrink.", _PODS)
    yield _TermText(
        "floor", "No less than this floor is published, which is at most the capacity: {}.", f"{_STRATEGY}.midFloor"
    )
    yield _TermText("rise_limit", "A single update may rise to at most {}.", f"{_STRATEGY}.midMaxIncreasePercent")
    yield _TermText("published", "Written to the node: {}.", _NODE_STATUS)


_IN_SHADOW: Final = "With midPublish node, written would be: {}."
_RECLAIMABLE: Final[Mapping[str, tuple[str, str]]] = {
    "": ("Reclaimable: {}.", _FORMULA),
    Source.PEAK: ("Requested and not needed by the predicted peak: {}.", _FORMULA),
    Source.REPORTED: ("Reclaimable, as the agent reports: {}.", f"{_REPORT}.prodReclaimableMetric"),
    Source.STATIC: ("That is {}, independent of the usage.", _FORMULA),
    Source.NONE: ("Reclaimable without a prediction: {}.", _FORMULA),
}


def _terms(mid: str, written: MidStatus | None, *, is_shadow: bool = False) -> Iterator[Term]:
    line = written.resources.get(mid) if written else None
    if written is None or line is None:
        return
    for each in _term_texts(mid, line, written.requests_from):
        value = getattr(line, each.field)
        if value is None:
            continue
        sentence = _IN_SHADOW if is_shadow and each.field == "published" else each.sentence
        text = f"{value} %" if each.field.endswith("_percent") else amount(mid, value)
        sampled = each.source.startswith(_REPORT) and written.sample
        time = written.sample if sampled else written.time
        yield Term(each.field, value, sentence.format(text), each.source, time)


def amount(mid: str, value: int) -> str:
    """Format milli-cores or bytes: "1.5 cores", "2.3 GiB (2500000000 bytes)"."""
    if mid == names.MID_CPU:
        return f"{value / 1000:g} cores"
    return f"{value / _GIB:.1f} GiB ({value} bytes)" if value >= _GIB / 10 else f"{value} bytes"


def head(found: Explanation) -> Iterator[str]:
    """Format everything but the terms as lines of text."""
    detail = f": {found.detail}" if found.detail else ""
    since = f", since {found.since}" if found.since else ""
    yield f"{found.node}: Mid resources {found.text}{detail} ({found.reason}{since})"
    if found.newest_reason:
        detail = f": {found.newest_detail}" if found.newest_detail else ""
        yield f"the newest report would lead to: {found.newest_text}{detail} ({found.newest_reason})"
    if found.shadow:
        yield "midPublish is shadow: nothing is written to the node; the terms are those of the newest report"
    elif found.written:
        of = f", calculated from the sample of {found.sample}" if found.sample else ""
        yield f"written {found.written}{of}"
    else:
        yield f"the node has no annotation {names.ANNOTATION_MID_STATUS}: nothing was written yet"
    if found.closed:
        yield f"no new Mid pod is admitted, and no more is published than Mid pods request: {found.closed}"
    yield from (f"eviction: {sentence}" for sentence in found.eviction)
