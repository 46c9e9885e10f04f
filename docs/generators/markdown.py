"""Markdown for generated pages: tables and the head of a page."""

from __future__ import annotations

from collections.abc import Iterable

Row = tuple[str, ...]


def head(title: str, source: str) -> str:
    """Return the title of a page and a comment that names what the page is generated from."""
    return f"<!-- Generated from {source} by `make update`. Do not edit. -->\n\n# {title}\n"


def table(head_row: Row, rows: Iterable[Row]) -> str:
    """Return a table with an empty line before it."""
    head_line, *lines = ("| " + " | ".join(line) + " |\n" for line in (head_row, *(map(cell, row) for row in rows)))
    return f"\n{head_line}{'|---' * len(head_row)}|\n{''.join(lines)}"


def cell(text: str) -> str:
    """Return text that does not break out of its table cell."""
    return " ".join(text.split()).replace("|", "\\|")


def code(text: str) -> str:
    """Return text as inline code, or nothing for an empty text."""
    return f"`{text}`" if text else ""
