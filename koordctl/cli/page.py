"""An answer as one HTML file that loads nothing. All text is escaped: tenants choose the names of namespaces. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Final

from koordctl.cli.answer import Table

_STYLE: Final = """
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1b1f24;background:#fff}
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.2rem .8rem;text-align:right;border-bottom:1px solid #d0d7de}
td:first-child,th:first-child{text-align:left}.o{fill:#cfe3f7}.r{fill:#7fb2e5}.u{fill:#1f5fa8}
@media (prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}td,th{border-color:#30363d}
svg text{fill:#e6edf3}}
"""
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"


def text(title: str, written: str, lines: Iterable[str], sections: Mapping[str, str], missing: Sequence[str]) -> str:
    """Return the page; `written` is when and by which command, `sections` are markup by their titles."""
    parts = [f"<h1>{escape(title)}</h1>", f"<p>Written {escape(written)}.</p>"]
    parts += [f"<p>{escape(line)}</p>" for line in lines]
    parts += [f"<h2>{escape(heading)}</h2>\n{markup}" for heading, markup in sections.items()]
    if missing:
        parts += ["<h2>Not shown</h2>", "<ul>", *(f"<li>{escape(sentence)}</li>" for sentence in missing), "</ul>"]
    head = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>"
    )
    return "\n".join([head, *parts, "</body></html>", ""])


def table(of: Table) -> str:
    """Return the markup of a table."""
    rows = [_cells("th", [column.title for column in of.columns]), *(_cells("td", row) for row in of.rows)]
    return "\n".join(["<table>", *rows, "</table>"])


def _cells(tag: str, cells: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"
