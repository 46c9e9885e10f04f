"""`koordctl explain node`: the Mid resources of a node as a sum, term by term. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from api_types import names
from api_types.node_metric import mid_resource
from api_types.wire_model import camel_case
from fleet import node_state
from fleet.node_state import NodeState, TermsByName
from koordctl.cli.answer import UNKNOWN, Answer, Column, Number, Table, age, bar
from koordctl.cli.document import AnswerDocument, Part, ResourceAmounts, amounts, part
from manager.mid_resource import explanation

_BAR_LENGTH: Final = 16
_GIB: Final = 2**30
_SPLIT: Final = "NodeMetric status.prediction.prod"


class NewestReport(Part):
    """What the newest report leads to, where that differs from the last write; otherwise empty."""

    reason: str
    text: str
    detail: str


class NodeTerm(Part):
    """One term of the formula, in milli-cores, bytes or percent."""

    term: str
    value: int
    sentence: str
    source: str
    """Object and field of the value, or the key that sets it."""
    time: str
    """Time of the value in RFC 3339, or empty."""
    layer: str | None
    """Layer of the configuration that sets the key; null for a term without one, and where it was not read."""


class NodeResource(Part):
    """One Mid resource: CPU in milli-cores, or memory in bytes."""

    published: int | None
    """Value on the node; null without one."""
    terms: list[NodeTerm]


class NodeExplanation(AnswerDocument):
    """Document of `koordctl explain node`; times are in RFC 3339, or empty."""

    node: str
    status: str
    reason: str
    """Reason code, as on the page of the findings."""
    text: str
    detail: str
    since: str
    written: str
    """Time of the status annotation."""
    sample: str
    """Time of the report that it is of."""
    closed: str
    """Why the node accepts no new Mid pod; empty where it does."""
    shadow: bool
    """Whether the terms are those of `midPublish: shadow`, which writes nothing to the node."""
    newest: NewestReport
    sample_age_seconds: float | None
    predictor: str
    mid_requests: ResourceAmounts
    system_peak: ResourceAmounts
    """Part of the predicted peak of Prod that runs outside of pods, beyond the reservation; null where not stated."""
    resources: dict[str, NodeResource]
    """By the name of the Mid resource."""
    eviction: list[str]
    """What was evicted from the node, and what would be next, as sentences."""


@dataclass(frozen=True)
class ExplainedNode:
    """Everything that explains one node."""

    state: NodeState
    mid: explanation.Explanation
    layers: Mapping[str, str]
    """Layer that sets each key of the strategy; empty where the configuration was not read."""


class _Row(NamedTuple):
    """A line of the sum."""

    term: str
    value: int
    origin: str
    in_sum: bool = True
    """Whether the amount is part of the sum, and has a bar; a bound has none."""


def answer(explained: ExplainedNode, notes: Sequence[str] = ()) -> Answer:
    """Return the answer of `explain node`."""
    rows = [row for mid in names.MID_RESOURCES for row in _resource_rows(explained, mid)]
    columns = (
        Column("RESOURCE"),
        Column("TERM"),
        Column("AMOUNT", right=True),
        Column("", is_drawing=True),
        Column("FROM"),
    )
    mid = explained.mid
    return Answer(
        _document(explained),
        [Table(columns, rows)] if rows else [],
        [f"node/{mid.node}"],
        [_summary(explained), *explanation.head(mid)],
        ["", f"pods: koordctl top pods --node {mid.node} --sort slack:desc"],
        notes=notes,
    )


def _summary(explained: ExplainedNode) -> str:
    parts = []
    state = explained.state
    for name, mid, requested in zip(("CPU", "memory"), names.MID_RESOURCES, state.mid_requests, strict=True):
        whole = explained.mid.resources[mid].published
        parts.append(f"{_shown(mid, whole)} of Mid {name}, {_shown(mid, requested)} of it requested")
    return f"{explained.mid.node} has {'; '.join(parts)}; sample {age(state.sample_age_seconds)} old"


def _shown(mid: str, value: int | None) -> str:
    if value is None:
        return "none" if mid == names.MID_CPU else UNKNOWN
    return f"{_number(mid, value)} {'cores' if mid == names.MID_CPU else 'GiB'}"


def _number(mid: str, value: int) -> str:
    amount = value / (1_000 if mid == names.MID_CPU else _GIB)
    return Number(f"{amount:.2f}", amount)


def _resource_rows(explained: ExplainedNode, mid: str) -> Iterator[tuple[str, ...]]:
    rows = list(_rows(explained, mid))
    whole = max((row.value for row in rows if row.in_sum), default=0)
    title = "CPU cores" if mid == names.MID_CPU else "memory GiB"
    for row in rows:
        drawn = bar(row.value, whole, _BAR_LENGTH) if row.in_sum else ""
        yield title, row.term, _number(mid, row.value), drawn, row.origin


def _rows(explained: ExplainedNode, mid: str) -> Iterator[_Row]:
    terms = {term.term: term for term in explained.mid.resources[mid].terms}
    values = {name: term.value for name, term in terms.items()}
    is_static = "static_percent" in terms
    has_peak = "peak_prod" in terms and not is_static
    if has_peak:
        yield from _reclaimable(explained, mid, terms)
    origins = {
        "calculated": "new Mid pods are admitted up to it",
        **({"reclaimable": "calculated"} if has_peak else {}),
    }
    static = f"  {values.get('static_percent')} % of the capacity"
    whole = "capacity" if is_static else "allocatable"
    for name, title, in_sum in (
        ("reclaimable", static if is_static else f"{'=' if has_peak else ' '} reclaimable", True),
        ("cap", f"  at most {values.get('threshold_percent', 0)} % of the {whole}", False),
        ("unallocated_share", f"+ {values.get('unallocated_percent', 0)} % of what no pod requests", True),
        ("unused", "  at most what nothing but Mid uses", False),
        ("usable", "  at most what is used without an eviction", False),
        ("total_limit", "  at most in total", False),
        ("calculated", "= calculated", True),
        ("floor", "  at least the floor: Mid pods request", False),
        ("rise_limit", "  at most the rise of one update", False),
        ("published", f"= Mid resources{', were they published' if explained.mid.shadow else ''}", True),
    ):
        if name in terms and (values[name] or name not in ("floor", "rise_limit")):
            origin = origins.get(name) or node_state.term_origin(terms[name], explained.layers)
            yield _Row(title, values[name], origin, in_sum)


def _reclaimable(explained: ExplainedNode, mid: str, terms: TermsByName) -> Iterator[_Row]:
    requests, ratio, state = terms.get("allocated_prod"), terms.get("reclaim_ratio_percent"), explained.state
    if requests is not None:
        yield _Row("  Prod pods request", requests.value, requests.source)
    if ratio is not None and ratio.value != 100:
        counted = (requests.value if requests else 0) * ratio.value // 100
        origin = node_state.term_origin(ratio, explained.layers)
        yield _Row(f"  counted of that: {ratio.value} %", counted, origin, in_sum=False)
    counts = ((state.borrowed_pods, "borrowed"), (state.cold_pods or 0, "cold"))
    few = "".join(f", {count} {kind} pods" for count, kind in counts if count)
    until = f", not alone in force until {state.calibrated_after:%F %R} UTC" if state.calibrated_after else ""
    predictor = f"{state.predictor}{few}{until}; " if state.predictor else ""
    peak = terms["peak_prod"]
    yield _Row("- predicted peak of Prod", peak.value, f"{predictor}{peak.source}")
    system = state.system_peak.cpu if mid == names.MID_CPU else state.system_peak.memory
    if system is not None:  # the predictor states it
        yield _Row("  of it: pods", peak.value - system, _SPLIT, in_sum=False)
        yield _Row("  of it: outside of pods, not reserved", system, f"{_SPLIT}; reserve it", in_sum=False)


def _document(explained: ExplainedNode) -> NodeExplanation:
    mid, state = explained.mid, explained.state
    return part(
        NodeExplanation,
        mid,
        newest=NewestReport(mid.newest_reason, mid.newest_text, mid.newest_detail),
        sample_age_seconds=state.sample_age_seconds,
        predictor=state.predictor,
        mid_requests=amounts(state.mid_requests),
        system_peak=amounts(state.system_peak),
        resources={
            name: NodeResource(resource.published, [_term_document(explained, term) for term in resource.terms])
            for name, resource in mid.resources.items()
        },
        eviction=list(mid.eviction),
    )


def _term_document(explained: ExplainedNode, term: explanation.Term) -> NodeTerm:
    layer = explained.layers.get(term.key) if term.source != mid_resource.FORMULA else None
    return part(NodeTerm, term, term=camel_case(term.term), layer=layer)
