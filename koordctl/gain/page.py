"""The answer as one HTML file that loads nothing. All text is escaped: tenants choose the names of namespaces. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from koordctl.cli.answer import Table
from koordctl.gain import gains
from koordctl.gain.gains import Gain

_STYLE: Final = """
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1b1f24;background:#fff}
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.2rem .8rem;text-align:right;border-bottom:1px solid #d0d7de}
td:first-child,th:first-child{text-align:left}.o{fill:#cfe3f7}.r{fill:#7fb2e5}.u{fill:#1f5fa8}
@media (prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}td,th{border-color:#30363d}
svg text{fill:#e6edf3}}
"""
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
_ROW, _LABEL, _BAR = 22, 110, 520


def text(gain: Gain, written: str) -> str:
    """Return the page; `written` is its date."""
    answer = gains.answer(gain)
    parts = [f"<h1>{escape(gains.title(gain))}</h1>", f"<p>Written {escape(written)} by koordctl gain.</p>"]
    parts += [f"<p>{escape(line)}</p>" for line in gains.summary(gain)]
    if gain.days:
        parts += ["<h2>Core-hours a day</h2>", _chart(gain.days)]
    titles = ("By namespace", "Forecasts against usage, now")
    for title, table in zip(titles, answer.tables, strict=False):
        parts += [f"<h2>{title}</h2>", _table(table)]
    if gain.missing:
        parts += ["<h2>Not shown</h2>", "<ul>", *(f"<li>{escape(sentence)}</li>" for sentence in gain.missing), "</ul>"]
    head = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">'
        f"<title>{escape(gains.title(gain))}</title><style>{_STYLE}</style></head><body>"
    )
    return "\n".join([head, *parts, "</body></html>", ""])


def _table(table: Table) -> str:
    head = _cells("th", [column.title for column in table.columns])
    return "\n".join(["<table>", head, *(_cells("td", row) for row in table.rows), "</table>"])


def _cells(tag: str, cells: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"


def _chart(days: Sequence[gains.GainDay]) -> str:
    """Draw a bar for each day: on offer, in it requested, in it used; one scale for all."""
    most = max((max(day.offered, day.requested, day.used) for day in days), default=0.0) or 1.0
    rows = []
    for number, day in enumerate(days):
        top = number * _ROW
        rows.append(f'<text x="0" y="{top + 15}" font-size="12">{escape(day.name)}</text>')
        for kind, amount, height in (("o", day.offered, 16), ("r", day.requested, 10), ("u", day.used, 4)):
            width, y = _BAR * amount / most, top + 2 + (16 - height) / 2
            rows.append(f'<rect class="{kind}" x="{_LABEL}" y="{y:g}" width="{width:.1f}" height="{height}"/>')
        shown = f"{day.offered / 3600:.0f} on offer, {day.requested / 3600:.0f} requested, {day.used / 3600:.0f} used"
        rows.append(f'<text x="{_LABEL + _BAR + 8}" y="{top + 15}" font-size="12">{shown}</text>')
    width, height = _LABEL + _BAR + 280, len(days) * _ROW
    head = f'<svg role="img" aria-label="Core-hours a day" viewBox="0 0 {width} {height}" width="100%">'
    return "\n".join([head, *rows, "</svg>"])
