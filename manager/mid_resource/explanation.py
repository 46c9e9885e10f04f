"""A node's receipt as sentences, one for each term, and why there is no Mid where there is none. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from api_types import names
from api_types.kubernetes import pods
from api_types.node_metric.mid_resource import Source
from manager.mid_resource import calculator, status_annotation
from manager.mid_resource.decision import Decision
from manager.mid_resource.reasons import STATUS, TEXTS, Reason, Status

_REPORT: Final = "NodeMetric status"
_STRATEGY: Final = "NodeMetric spec.midColocationPolicy"
_FORMULA: Final = "calculated"
_GIB: Final = 1 << 30


@dataclass(frozen=True)
class Term:
    """One term of one resource, in milli-cores, bytes or percent."""

    term: str
    value: int
    sentence: str
    source: str
    """Where the value was taken from."""
    time: str
    """When it held."""


@dataclass(frozen=True)
class Resource:
    """One Mid resource; `published` is what stands on the node now, None where nothing does."""

    published: int | None
    terms: tuple[Term, ...]


@dataclass(frozen=True)
class Explanation:
    """Why a node's Mid resources are what they are. Times in RFC 3339, empty where there is none."""

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
    """What the newest report leads to, where that is not what was last written."""
    newest_text: str = ""
    newest_detail: str = ""


def explain(node: pods.Node, judged: Decision | None) -> Explanation:
    """Put together what the node's receipt says and what its newest report leads to.

    `judged` is None where the policy of the node is not known.
    """
    written, published = status_annotation.of_node(node), calculator.published_on(node)
    resources = {
        mid: Resource(published.allocatable.get(mid), tuple(_terms(mid, written)) if written else ())
        for mid in names.MID_RESOURCES
    }
    head = written or _unwritten(judged)
    newest = judged if written and judged and _is_news(judged, written) else None
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
    )


def _unwritten(judged: Decision | None) -> status_annotation.MidStatus:
    """Head of the explanation of a node on which nothing was written."""
    reason = judged.reason if judged else Reason.NO_CONFIGURATION
    detail = judged.detail if judged else ""
    return status_annotation.MidStatus(time="", reason=reason, status=STATUS[reason], text=TEXTS[reason], detail=detail)


def _is_news(judged: Decision, written: status_annotation.MidStatus) -> bool:
    """Whether a judgement differs from what was written; which way a value is calculated is not judged."""
    if STATUS[judged.reason] is Status.CALCULATED:
        return written.status != Status.CALCULATED
    return written.reason != judged.reason


class _Told(NamedTuple):
    """A field of a receipt's line, how to say it, and where it comes from."""

    field: str
    sentence: str
    source: str


def _told(mid: str, line: status_annotation.Line, requests_from: str) -> Iterator[_Told]:
    native = "CPU" if mid == names.MID_CPU else "Memory"
    requests = "the node's pods, listed once" if requests_from == "pods" else f"{_REPORT}.allocated"
    whole = "capacity" if line.source == Source.STATIC else "allocatable"
    yield _Told("allocatable", "The node lets pods request {}.", "Node status.allocatable")
    yield _Told("reserved", "Its reservation keeps {} back.", f"Node annotation {names.ANNOTATION_NODE_RESERVATION}")
    yield _Told("capacity", "The node has {}.", "Node status.capacity")
    yield _Told("allocated_prod", "Prod pods request {}.", requests)
    yield _Told("peak_prod", "Prod pods are predicted to need {} at most.", f"{_REPORT}.prodPeakMetric")
    yield _Told("reclaim_ratio_percent", "Counted of the Prod requests: {}.", f"{_STRATEGY}.midReclaimRatioPercent")
    yield _Told(
        "static_percent", "Static mode publishes {} of the capacity.", f"{_STRATEGY}.midStatic{native}ReservedPercent"
    )
    yield _Told("reclaimable", *_RECLAIMABLE.get(line.source, _RECLAIMABLE[""]))
    yield _Told("threshold_percent", f"The cap is {{}} of the {whole}.", f"{_STRATEGY}.mid{native}ThresholdPercent")
    yield _Told("cap", "At most that is given away: {}.", _FORMULA)
    yield _Told("unallocated", "Requested by no Prod pod: {}.", _FORMULA)
    yield _Told("unallocated_percent", "Added is {} of that.", f"{_STRATEGY}.midUnallocatedPercent")
    yield _Told("unallocated_share", "That adds {}.", _FORMULA)
    yield _Told("allocated_mid", "Mid pods request {}.", requests)
    yield _Told("floor", "Never less than that is published: {}.", f"{_STRATEGY}.midFloor")
    yield _Told("calculated", "All in all that makes {}.", _FORMULA)
    yield _Told("rise_limit", "A single update may rise to {} only.", f"{_STRATEGY}.midMaxIncreasePercent")
    yield _Told("published", "Written to the node: {}.", "Node status.allocatable and status.capacity")


_RECLAIMABLE: Final[Mapping[str, tuple[str, str]]] = {
    "": ("Reclaimable: {}.", _FORMULA),
    Source.PEAK: ("Requested and not going to be needed: {}.", _FORMULA),
    Source.REPORTED: ("Reclaimable, as the agent says: {}.", f"{_REPORT}.prodReclaimableMetric"),
    Source.STATIC: ("That is {}, whatever is in use.", _FORMULA),
}


def _terms(mid: str, written: status_annotation.MidStatus) -> Iterator[Term]:
    line = written.resources.get(mid)
    if line is None:
        return
    for told in _told(mid, line, written.requests_from):
        value = getattr(line, told.field)
        if value is None:
            continue
        text = f"{value} %" if told.field.endswith("_percent") else amount(mid, value)
        sampled = told.source.startswith(_REPORT) and written.sample
        yield Term(
            told.field, value, told.sentence.format(text), told.source, written.sample if sampled else written.time
        )


def amount(mid: str, value: int) -> str:
    """Milli-cores or bytes for people: "1.5 cores", "2.3 GiB (2500000000 bytes)"."""
    if mid == names.MID_CPU:
        return f"{value / 1000:g} cores"
    return f"{value / _GIB:.1f} GiB ({value} bytes)" if value >= _GIB / 10 else f"{value} bytes"


def lines(found: Explanation) -> Iterator[str]:
    """Lines of text that say the same."""
    detail = f": {found.detail}" if found.detail else ""
    since = f", since {found.since}" if found.since else ""
    yield f"{found.node}: Mid resources {found.text}{detail} ({found.reason}{since})"
    if found.newest_reason:
        detail = f": {found.newest_detail}" if found.newest_detail else ""
        yield f"by now the newest report leads to: {found.newest_text}{detail} ({found.newest_reason})"
    if found.written:
        of = f", calculated from the sample of {found.sample}" if found.sample else ""
        yield f"written {found.written}{of}"
    else:
        yield f"the node carries no receipt (annotation {names.ANNOTATION_MID_RECEIPT}): nothing was written yet"
    for mid, resource in found.resources.items():
        yield f"{mid}: " + ("none" if resource.published is None else amount(mid, resource.published))
        for term in resource.terms:
            yield f"  {term.sentence}  [{term.source}, {term.time}]"
