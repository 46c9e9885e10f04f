"""Diagrams of docs/assets as SVG: the data flow and three sequences.

Each has an opaque light background, so that it can be read on a light and on a dark page.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final, NamedTuple

_INK, _PAPER, _BOX, _LINE, _ACCENT = "#1f2430", "#fbfbfd", "#e8ecf8", "#5b6478", "#3f51b5"
_COLUMN: Final = 190
_STEP: Final = 34
_HEAD: Final = 74


class Step(NamedTuple):
    """A message from one participant to another; to itself it is work that the participant does."""

    sender: str
    receiver: str
    text: str


class Diagram(NamedTuple):
    """One sequence diagram."""

    title: str
    participants: Sequence[str]
    steps: Sequence[Step]


def _steps(*lines: str) -> tuple[Step, ...]:
    """Parse lines of the form `sender > receiver: text`."""
    found = []
    for line in lines:
        ends, _, text = line.partition(": ")
        sender, _, receiver = ends.partition(" > ")
        found.append(Step(sender, receiver, text))
    return tuple(found)


SEQUENCES: Final = {
    "sequence-usage-to-nodemetric": Diagram(
        "From usage to a NodeMetric",
        ("cgroups, /proc", "collectors", "metric cache", "prediction", "report", "kube-apiserver"),
        _steps(
            "collectors > cgroups, /proc: read counters, every 1 s",
            "collectors > metric cache: snapshot of one instant",
            "metric cache > metric cache: series: node, system, S, classes, pods",
            "prediction > metric cache: p90 of the last 30 s, every 30 s",
            "prediction > prediction: train histograms and moments",
            "report > metric cache: aggregations, every 20 to 60 s",
            "report > prediction: predict: peak and reclaimable",
            "report > report: due, or moved by more than 5 %?",
            "report > kube-apiserver: PUT nodemetrics/NODE/status",
        ),
    ),
    "sequence-nodemetric-to-mid": Diagram(
        "From a NodeMetric to Mid resources",
        ("kube-apiserver", "watches", "store", "work queue", "reconciler", "mid_resource"),
        _steps(
            "kube-apiserver > watches: event: NodeMetric changed",
            "watches > store: keep the decoded object",
            "watches > work queue: add NODE, urgent if withdrawn",
            "work queue > reconciler: one worker takes NODE",
            "reconciler > store: node, NodeMetric, strategy",
            "reconciler > mid_resource: decide: calculate, keep, withdraw",
            "mid_resource > mid_resource: formula, terms, reason code",
            "mid_resource > reconciler: patch, or nothing to write",
            "reconciler > kube-apiserver: PATCH nodes/NODE/status",
        ),
    ),
    "sequence-question-to-placed-pod": Diagram(
        "From a question to a placed pod",
        ("kube-apiserver", "kube-scheduler", "KoordSuite", "socket", "cluster state", "plugins"),
        _steps(
            "kube-apiserver > cluster state: nodes and NodeMetrics: one row per node",
            "kube-scheduler > KoordSuite: PreFilter: one pod",
            "KoordSuite > socket: the pod, if it changed; the question",
            "socket > plugins: reject and score all rows",
            "plugins > cluster state: read columns",
            "socket > KoordSuite: a code and a score for each row",
            "kube-scheduler > KoordSuite: Filter, Score: look up",
            "KoordSuite > socket: Reserve: the chosen node",
            "socket > cluster state: the pod counts there",
            "kube-scheduler > kube-apiserver: binds the pod",
            "cluster state > socket: a row passes again",
            "socket > KoordSuite: wake refused pods, as many as fit",
        ),
    ),
}
"""File name -> diagram."""


def generated() -> dict[str, str]:
    """Return the content of each SVG file by its name."""
    return {"data-flow": data_flow(), **{name: sequence(each) for name, each in SEQUENCES.items()}}


def sequence(of: Diagram) -> str:
    """Draw one sequence diagram."""
    width = _COLUMN * len(of.participants)
    height = _HEAD + _STEP * (len(of.steps) + 1)
    centers = {name: _COLUMN * index + _COLUMN / 2 for index, name in enumerate(of.participants)}
    parts = []
    for name, center in centers.items():
        parts.append(_line(center, _HEAD - 14, center, height - 12, dashed=True))
        parts.append(_box(center - 78, _HEAD - 40, 156, 28, name))
    for index, step in enumerate(of.steps):
        y = _HEAD + _STEP * (index + 1)
        parts.append(_message(centers[step.sender], centers[step.receiver], y, step.text, width))
    return _svg(width, height, of.title, parts)


def _message(start: float, end: float, y: float, text: str, width: float) -> str:
    if start == end:
        side = -1 if start > width - _COLUMN else 1
        path = f"M{start:g} {y - 12:g} h{14 * side} v12 h{-10 * side}"
        loop = f'<path d="{path}" fill="none" stroke="{_ACCENT}" marker-end="url(#arrow)"/>'
        return loop + _halo(_text(start + 22 * side, y - 4, text, anchor="start" if side > 0 else "end"))
    shortened = end - 5 if end > start else end + 5
    return _line(start, y, shortened, y, arrow=True) + _halo(_text((start + end) / 2, y - 6, text))


def _halo(text: str) -> str:
    """Draw the text twice, first as a broad outline in the color of the background."""
    outline = text.replace("<text ", f'<text stroke="{_PAPER}" stroke-width="4" stroke-linejoin="round" ')
    return outline.replace(f'fill="{_INK}"', f'fill="{_PAPER}"') + text


def data_flow() -> str:
    """Draw what runs where and what each component reads and writes."""
    parts = [
        _frame(16, 44, 300, 316, "every node (DaemonSet koordlet)"),
        _frame(690, 44, 310, 316, "control plane"),
        *(_box(32, 74 + 56 * index, 268, 40, text) for index, text in enumerate(_NODE)),
        *(_line(166, 114 + 56 * index, 166, 129 + 56 * index, arrow=True) for index in range(len(_NODE) - 1)),
        _box(440, 74, 130, 264, "kube-apiserver"),
        _line(300, 318, 437, 318, arrow=True),
        _text(378, 310, "NodeMetric.status"),
        _box(706, 74, 278, 58, "koord-manager"),
        _text(845, 120, "NodeMetric.spec, Mid resources on nodes"),
        _line(570, 94, 703, 94, arrow=True),
        _text(630, 86, "watch"),
        _line(706, 116, 573, 116, arrow=True),
        _text(630, 132, "PATCH, PUT"),
        _box(706, 186, 278, 58, "scheduler plugin"),
        _text(845, 232, "a code and a score for each node"),
        _line(570, 215, 703, 215, arrow=True),
        _text(630, 207, "watch"),
        _box(706, 298, 278, 40, "kube-scheduler named koord-scheduler"),
        _line(845, 298, 845, 247, arrow=True),
        _text(851, 276, "Unix socket", anchor="start"),
    ]
    return _svg(1016, 376, "koord-suite: data flow", parts)


_NODE: Final = (
    "cgroup v1 or v2, /proc",
    "collectors: every second",
    "metric cache: 30 minutes in memory",
    "prediction: every 30 seconds",
    "report: every minute, or earlier",
)


def _svg(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    marker = (
        f'<defs><marker id="arrow" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0 L8 4 L0 8 z" fill="{_ACCENT}"/></marker></defs>'
    )
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" font-family="Helvetica, Arial, sans-serif" font-size="12">\n'
        f"<title>{escape(title)}</title>\n{marker}\n"
        f'<rect width="{width}" height="{height}" rx="8" fill="{_PAPER}" stroke="{_BOX}"/>\n'
        f"{_text(16, 24, title, anchor='start', bold=True)}\n{body}\n</svg>\n"
    )


def _box(x: float, y: float, width: float, height: float, text: str) -> str:
    is_tall = height > 50 and height < 60
    baseline = y + (22 if is_tall else height / 2 + 4)
    shape = f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="5" fill="{_BOX}" stroke="{_ACCENT}"/>'
    return shape + _text(x + width / 2, baseline, text, bold=True)


def _frame(x: float, y: float, width: float, height: float, text: str) -> str:
    shape = f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" fill="none" stroke="{_LINE}"/>'
    return shape + _text(x + 12, y + 20, text, anchor="start")


def _line(x1: float, y1: float, x2: float, y2: float, *, dashed: bool = False, arrow: bool = False) -> str:
    style = f'stroke="{_LINE}" stroke-dasharray="3 4"' if dashed else f'stroke="{_ACCENT}"'
    end = ' marker-end="url(#arrow)"' if arrow else ""
    return f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" {style}{end}/>'


def _text(x: float, y: float, text: str, *, anchor: str = "middle", bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{_INK}"{weight}>{escape(text)}</text>'
