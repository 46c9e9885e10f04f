"""Explain a node's status annotation in sentences, one for each term, or why the node has no Mid. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from api_types import names
from api_types.node_metric import mid_resource
from api_types.node_metric.mid_status import MidStatus
from manager.cache import store
from manager.mid_resource import formula
from manager.mid_resource.decision import Decision
from manager.mid_resource.reasons import CLOSED_TEXTS, STATUS, TEXTS, Reason, Status

_CLOSED: Final[Mapping[str, str]] = {code.value: text for code, text in CLOSED_TEXTS.items()}


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
    key: str = ""
    """Key of the configuration that sets the value, or what it is calculated with; empty without one."""
    binds: bool | None = None
    """Whether a bound changes the result; None for a term that is no bound."""


@dataclass(frozen=True)
class MidTerms:
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
    resources: dict[str, MidTerms]
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


def explain(node: store.StoredNode, decided: Decision | None, shadow: MidStatus | None = None) -> Explanation:
    """Combine the node's status annotation with the decision on its newest report.

    `decided` is None where the policy of the node is not known. `shadow` is the annotation that a node in shadow would
    have.
    """
    written, published = node.mid_status, formula.published_on(node)
    resources = {
        mid: MidTerms(published.allocatable.get(mid), tuple(_terms(mid, written or shadow, is_shadow=written is None)))
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
    reason = decided.reason if decided else Reason.NO_CONFIGURATION
    detail = decided.detail if decided else ""
    return MidStatus(time="", reason=reason, status=STATUS[reason], text=TEXTS[reason], detail=detail)


def _is_news(decided: Decision, written: MidStatus) -> bool:
    """Check whether a decision differs from the last write; the source of a calculated value is not compared."""
    if STATUS[decided.reason] is Status.CALCULATED:
        return written.status != Status.CALCULATED
    return written.reason != decided.reason


_IN_SHADOW: Final = "With midPublish node, written would be: {}."


def _terms(mid: str, written: MidStatus | None, *, is_shadow: bool = False) -> Iterator[Term]:
    terms = written.resources.get(mid) if written else None
    if written is None or terms is None:
        return
    for term in mid_resource.described(terms, mid, written.requests_from):
        value = getattr(terms, term.name)
        sentence = _IN_SHADOW if is_shadow and term.name == "published" else term.sentence
        text = f"{value} %" if term.name.endswith("_percent") else mid_resource.amount(mid, value)
        sampled = term.source.startswith(mid_resource.REPORT) and written.sample
        yield Term(
            term.name, value, sentence.format(text), term.source, written.sample if sampled else written.time, term.key,
            term.binds(terms) if term.binds else None,
        )  # fmt: skip


def head(explanation: Explanation) -> Iterator[str]:
    """Format everything but the terms as lines of text."""
    detail = f": {explanation.detail}" if explanation.detail else ""
    since = f", since {explanation.since}" if explanation.since else ""
    yield f"{explanation.node}: Mid resources {explanation.text}{detail} ({explanation.reason}{since})"
    if explanation.newest_reason:
        detail = f": {explanation.newest_detail}" if explanation.newest_detail else ""
        yield f"the newest report would lead to: {explanation.newest_text}{detail} ({explanation.newest_reason})"
    if explanation.shadow:
        yield "midPublish is shadow: nothing is written to the node; the terms are those of the newest report"
    elif explanation.written:
        sampled = f", calculated from the sample of {explanation.sample}" if explanation.sample else ""
        yield f"written {explanation.written}{sampled}"
    else:
        yield f"the node has no annotation {names.ANNOTATION_MID_STATUS}: nothing was written yet"
    if explanation.closed:
        yield f"no new Mid pod is admitted, and no more is published than Mid pods request: {explanation.closed}"
    yield from (f"eviction: {sentence}" for sentence in explanation.eviction)
