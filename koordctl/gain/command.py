"""Command `koordctl gain`: what the cluster shows now, or what a Prometheus has recorded, also as one HTML file."""

from __future__ import annotations

import contextlib
import re
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from html import escape
from typing import Final

from click import BadParameter, Option

from api_types.node_metric import evaluation_report
from component_base import clock
from fleet import node_state, pod_state
from fleet.node_state import NodeState
from fleet.reading import Reader
from koordctl.cli import answer, command, flags, page
from koordctl.cli.answer import Answer
from koordctl.gain import gains
from koordctl.gain.gains import Gain, GainSums, NamespaceMidUse
from manager.mid_resource.reasons import STATUS, Reason, Status

_UNITS = {"m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_LONGEST_DAYS = 366


def since(text: str) -> float:
    """Return the seconds of a time such as 12h or 7d."""
    match = re.fullmatch(r"(\d{1,4})([mhdw])", text)
    seconds = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if not 0 < seconds <= _LONGEST_DAYS * 86_400:
        raise BadParameter(f"seen {text!r}, want a time such as 12h, 7d or 4w, at most {_LONGEST_DAYS}d")
    return seconds


PARAMETERS: Final = (
    *flags.CONNECTION,
    *flags.output((*answer.FORMATS, "html")),
    Option(
        ["--prometheus"], metavar="URL", help="Prometheus that scrapes the suite; without it only the present is shown"
    ),
    Option(["--since"], type=since, default="7d", metavar="TIME", help="time before now, such as 12h, 7d or 4w"),
    flags.selector("--selector"),
    *flags.PROMETHEUS,
)


def run(options: Namespace) -> int:
    """Run the command; return the exit code."""
    if options.prometheus:
        return _from_prometheus(options)
    return command.run(options, _from_cluster)


def _answer(gain: Gain, options: Namespace) -> Answer:
    answered = gains.answer(gain)
    if options.output != "html":
        return answered
    text = page_text(gain, f"{clock.utc_now():%Y-%m-%d %H:%M} UTC")
    return Answer(answered.data, head=text.splitlines(), notes=answered.notes, exit_code=answered.exit_code)


def _from_prometheus(options: Namespace) -> int:
    try:
        from koordctl.backtest import prometheus as client  # noqa: PLC0415  # numpy, which the manager's image lacks
        from koordctl.gain import history  # noqa: PLC0415
    except ModuleNotFoundError as error:
        text = f"gain --prometheus needs {error.name}: pip install 'koordctl[predict]', or use the image koordctl"
        return command.fail(text, answer.NOT_READ)
    server = client.Server(options.prometheus, options.token_file, options.ca_file, options.timeout)
    period = history.time_range(clock.utc_now().timestamp(), options.since)
    try:
        with contextlib.closing(client.Prometheus(server)) as prometheus:
            gain = history.read(prometheus, period, server.shown, options.selector)
    except (client.CannotRead, client.RejectedQuery) as error:
        return command.fail(str(error), answer.NOT_READ)
    sys.stderr.writelines(f"{server.shown} warns: {text}\n" for text in sorted(prometheus.warnings))
    return command.show(options, _answer(gain, options))


NEEDS_HISTORY: Final = (
    "core-hours, GiB-hours, evictions, suppressed CPU and the time above the predicted peak need a Prometheus that "
    "scrapes the suite: --prometheus URL"
)
_CHOSEN: Final = (Reason.COLOCATION_DISABLED, Reason.SHADOW)


async def _from_cluster(reader: Reader, options: Namespace) -> Answer:
    """Read nodes, reports and pods. Raises NotRead where neither nodes nor reports may be read."""
    nodes, reports = list[NodeState](), list[evaluation_report.Packed]()
    async for name, node, metric in reader.pairs():
        nodes.append(node_state.combine(name, node, metric, reader.now))
        prediction = metric.status.prediction if metric and metric.status else None
        if prediction is not None:
            reports.append(evaluation_report.pack(prediction.evaluation or ()))
    if {"nodes", "nodemetrics"} <= {unread.what for unread in reader.unread}:
        raise command.nothing_read(reader)
    namespaces = await reader.namespaces(band="mid")
    bad = {reason.value for reason in Reason if STATUS[reason] is not Status.CALCULATED and reason not in _CHOSEN}
    bad.add(Reason.CALCULATED_WITHOUT_PREDICTION)
    missing = [NEEDS_HISTORY]
    if namespaces is None:
        missing.append("namespaces: pods may not be read")
    gain = Gain(
        "the cluster",
        offered=_sums(pod_state.total(node.mid for node in nodes)),
        allocatable=_sums(pod_state.total(node.allocatable for node in nodes)),
        namespaces={
            use.name: NamespaceMidUse(_sums(use.mid_requests), _sums(use.mid_used)) for use in namespaces or ()
        },
        forecasts=[
            gains.predictor_gain(predictor, resource, forecast.violation_ratio, forecast.savings_ratio)
            for (predictor, resource), forecast in sorted(evaluation_report.combined(reports).items())
        ],
        withdrawn=dict(Counter(node.reason for node in nodes if node.reason in bad)),
        missing=missing,
    )
    return _answer(gain, options)


def _sums(amounts: node_state.Amounts) -> GainSums:
    return GainSums(None if amounts.cpu is None else amounts.cpu / 1000, amounts.memory)


_ROW, _LABEL, _BAR = 22, 110, 520


def page_text(gain: Gain, written: str) -> str:
    """Return the page; `written` is its date."""
    sections = {"Core-hours a day": _chart(gain.days)} if gain.days else {}
    titles = ("By namespace", "Forecasts against usage, now")
    sections |= {title: page.table(of) for title, of in zip(titles, gains.answer(gain).tables, strict=False)}
    return page.text(gains.title(gain), f"{written} by koordctl gain", gains.summary(gain), sections, gain.missing)


def _chart(days: Sequence[gains.DayGain]) -> str:
    """Draw a bar for each day: on offer, in it requested, in it used; one scale for all."""
    most = max((max(day.offered, day.requested, day.used) for day in days), default=0.0) or 1.0
    rows = []
    for number, day in enumerate(days):
        top = number * _ROW
        rows.append(f'<text x="0" y="{top + 15}" font-size="12">{escape(day.day)}</text>')
        for kind, amount, height in (("o", day.offered, 16), ("r", day.requested, 10), ("u", day.used, 4)):
            width, y = _BAR * amount / most, top + 2 + (16 - height) / 2
            rows.append(f'<rect class="{kind}" x="{_LABEL}" y="{y:g}" width="{width:.1f}" height="{height}"/>')
        shown = f"{day.offered:.0f} on offer, {day.requested:.0f} requested, {day.used:.0f} used"
        rows.append(f'<text x="{_LABEL + _BAR + 8}" y="{top + 15}" font-size="12">{shown}</text>')
    width, height = _LABEL + _BAR + 280, len(days) * _ROW
    head = f'<svg role="img" aria-label="Core-hours a day" viewBox="0 0 {width} {height}" width="100%">'
    return "\n".join([head, *rows, "</svg>"])
