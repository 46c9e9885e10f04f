"""Amounts, times, signs, bars and findings as every page shows them; what is not known is a dash. Pure."""

from __future__ import annotations

import datetime as dt
import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from api_types.kubernetes import times
from console.history.memory import HistoryPoint
from fleet import wire
from fleet.finding_kinds import KINDS, Severity
from fleet.findings import Finding
from fleet.node_state import NodeState, percent
from manager.mid_resource.reasons import TEXTS

UNKNOWN: Final = "–"  # noqa: RUF001  # a dash, as wide as a digit
_GIB: Final = 2**30


def cores(millis: float | None) -> str:
    """Format milli-cores as cores."""
    return amount(millis, "cpu")


def gib(count: float | None) -> str:
    """Format bytes as GiB."""
    return amount(count, "memory")


def amount(value: float | None, resource: str) -> str:
    """Format milli-cores or bytes, by the resource `cpu` or `memory`."""
    return column([value], resource)[0]


def each_cores(values: Iterable[float | None]) -> list[str]:
    """Format the CPU of different objects, below one core in milli-cores."""
    return [
        f"{value:.0f}m" if value is not None and 0 < abs(value) < 1000 else column([value], least_digits=1)[0]
        for value in values
    ]


def column(values: Sequence[float | None], resource: str = "cpu", least_digits: int = 0) -> list[str]:
    """Format the terms of a sum, each with as many digits as the largest: their points are below one another."""
    unit, most_digits = (1000, 2) if resource == "cpu" else (_GIB, 1)
    largest = max((abs(value) / unit for value in values if value is not None), default=0.0)
    digits = max(0 if largest >= 100 else 1 if largest >= 10 else most_digits, least_digits)
    return [UNKNOWN if value is None else f"{value / unit:,.{digits}f}" for value in values]


def percent_text(value: float | None, digits: int = 0) -> str:
    """Format a share in percent."""
    return UNKNOWN if value is None else f"{value:.{digits}f} %"


def age(seconds: float | None) -> str:
    """Format an age by its largest unit, as kubectl does."""
    return UNKNOWN if seconds is None else "{} {}".format(*times.rounded_age(seconds))


def clock_time(time: dt.datetime | None) -> str:
    """Format the time of day in UTC."""
    return time.astimezone(dt.UTC).strftime("%H:%M:%S") if time else UNKNOWN


def minute(time_seconds: float) -> str:
    """Format a time by hour and minute in UTC."""
    return dt.datetime.fromtimestamp(time_seconds, dt.UTC).strftime("%H:%M")


class Sign(NamedTuple):
    """A state: never by colour alone, always with a sign and a word."""

    style: str
    """ok, warn, bad or off."""
    sign: str
    word: str
    text: str = ""
    """The same as a sentence."""


LONGEST_NAME: Final = 253
"""Longest name of an object."""
LONGEST_MESSAGE: Final = 1_000
_SIGNS: Final = {Severity.ERROR: ("bad", "✘"), Severity.WARNING: ("warn", "!"), Severity.NOTE: ("off", "–")}  # noqa: RUF001  # the sign of what is off
_SHORT: Final = {"Calculated": "Calculated", "CalculatedFromReclaimable": "Calculated", "Static": "Static"}
_TEXTS: Final = {reason.value: text for reason, text in TEXTS.items()}


def mid_sign(node: NodeState) -> Sign:
    """Return the state of a node's Mid resources."""
    if node.reason in _SHORT:
        return Sign("ok", "✔", _SHORT[node.reason], node.text)
    kind = KINDS.get(node.reason)
    style, sign = _SIGNS[kind.severity] if kind else ("off", "?")
    detail = f": {node.detail}" if node.detail else ""
    return Sign(style, sign, node.reason or "unknown", f"{node.text or _TEXTS.get(node.reason, '')}{detail}")


def descending(value: float | None) -> float:
    """Return the key that puts the largest value first, and what is not known last."""
    return math.inf if value is None else -value


def thinned(points: Sequence[HistoryPoint], most: int) -> Sequence[HistoryPoint]:
    """Return at most `most` points, evenly spread, the newest among them, and one of no value in each gap."""
    step = -(-len(points) // most) or 1
    spread = points[::-step][::-1]
    lengths = [after.time_seconds - before.time_seconds for before, after in itertools.pairwise(spread)]
    parts: list[HistoryPoint] = list(spread[:1])
    for at, (length, point) in enumerate(zip(lengths, spread[1:], strict=True)):
        beside = [*lengths[max(at - 1, 0) : at], *lengths[at + 1 : at + 2]]
        if beside and (length > 3 * max(beside) or length > 10 * min(beside)):  # old points are five times as far apart
            parts.append(HistoryPoint(point.time_seconds - length // 2, (None,) * len(point.values)))
        parts.append(point)
    return parts


def is_fine(finding: Finding) -> bool:
    """Check whether a finding only repeats that the Mid resources of a node were calculated."""
    return finding.kind.code in _SHORT


def cut(text: str, longest: int = LONGEST_NAME) -> str:
    """Return the beginning of a text of the cluster, whose author may write any length."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


class BarLane(NamedTuple):
    """A bar of a term on the scale of the allocatable, in percent."""

    name: str
    amount: str
    share: str
    parts: Sequence[tuple[str, float, float]]
    """Style, begin and length of each part."""


def part(style: str, begin: float | None, length: float | None) -> tuple[str, float, float]:
    """Return a part of a bar that lies within the scale."""
    start = min(max(begin or 0.0, 0.0), 100.0)
    return style, round(start, 1), round(min(max(length or 0.0, 0.0), 100.0 - start), 1)


class Bar(NamedTuple):
    """CPU of one node in percent of its allocatable: usage, Prod requests beyond it, and the predicted peak."""

    parts: Sequence[tuple[str, float, float]]
    peak: float | None
    label: str


def usage_bar(node: NodeState) -> Bar:
    """Return the bar of a node. Without the usage of the classes, the usage of the node is one part."""
    whole = node.allocatable.cpu
    used = percent(node.used.cpu, whole)
    prod, mid = percent(node.prod_used.cpu, whole), percent(node.mid_used.cpu, whole)
    peak = percent(node.prod_peak.cpu, whole)
    requests = percent(node.prod_requests.cpu, whole)
    label = (
        f"{percent_text(used)} used, {percent_text(requests)} requested by Prod, "
        f"predicted peak of Prod {percent_text(peak)}"
    )
    if used is None:
        return Bar((), _within(peak), label)
    not_used = part("request", used, (requests or 0.0) - used)
    usage: tuple[tuple[str, float, float], ...] = (part("other", 0, used),)
    if prod is not None and mid is not None:
        usage = (part("prod", 0, prod), part("mid", prod, mid), part("other", prod + mid, used - prod - mid))
    parts = (*usage, not_used)
    return Bar(tuple(segment for segment in parts if segment[2] > 0), _within(peak), label)


def _within(value: float | None) -> float | None:
    return None if value is None else round(min(max(value, 0.0), 100.0), 1)


class Item(NamedTuple):
    """A finding on a page."""

    style: str
    sign: str
    severity: str
    code: str
    nodes: Sequence[str]
    """The first nodes; `more` are not named."""
    more: int
    sentence: str
    fix: str
    is_command: bool
    page: str


_NAMED_NODES: Final = 5
_COMMANDS: Final = ("kubectl ", "koordctl ", "helm ")


def items(findings: Iterable[Finding], namespace: str) -> list[Item]:
    """Return the findings for a page."""
    return [_item(finding, finding.fix.replace("NAMESPACE", namespace)) for finding in findings]


def _item(finding: Finding, fix: str) -> Item:
    return Item(
        *_SIGNS[finding.kind.severity],
        severity=finding.kind.severity.value,
        code=finding.kind.code,
        nodes=finding.objects[:_NAMED_NODES],
        more=max(len(finding.objects) - _NAMED_NODES, 0),
        sentence=": ".join(part for part in (finding.kind.sentence, finding.detail) if part),
        fix=fix,
        is_command=fix.startswith(_COMMANDS),
        page=finding.kind.page,
    )


class Paging(NamedTuple):
    """One page of rows, by the number in an address: the nearest that exists, or the first."""

    number: int
    pages: int
    rows: slice


def paging(count: int, page: str, size: int) -> Paging:
    """Return the page of so many rows that an address asks for."""
    pages = max(-(-count // size), 1)
    number = min(max(int(page), 1), pages) if page.isascii() and page.isdigit() and len(page) < 7 else 1
    return Paging(number, pages, slice((number - 1) * size, number * size))


def events(listed: Iterable[wire.WireEvent], now: dt.datetime) -> list[dict[str, Any]]:
    """Return Events for a page."""
    return [_event(event, now) for event in listed]


def _event(event: wire.WireEvent, now: dt.datetime) -> dict[str, Any]:
    time, about = event.time, event.involved_object
    name = f"{event.metadata.namespace}/{about.name}" if about.kind == "Pod" else about.name
    return {
        "age": age((now - time).total_seconds() if time else None),
        "kind": cut(about.kind),
        "name": cut(name, 2 * LONGEST_NAME),
        "reason": cut(event.reason),
        "is_warning": event.type == "Warning",
        "message": cut(event.message, LONGEST_MESSAGE),
        "count": event.count or 1,
    }
