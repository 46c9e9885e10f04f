"""Page docs/contributing/decisions/index.md: number, title, status and release of each decision."""

from __future__ import annotations

import pathlib
import re
from typing import Final

from docs.generators import markdown

_INTRODUCTION: Final = """
A decision is recorded where a reader would ask "why like this?". Each page states what was decided, why, and what else
was considered. Numbers are never reused. A decision that no longer holds keeps its page, as superseded, with a link.
To add one, copy the form of an existing page and run `make update`.
"""
_TITLE: Final = re.compile(r"^# (?P<number>\d+)\. (?P<title>.+)$", re.MULTILINE)
_STATUS: Final = re.compile(r"^Status: (?P<status>[^.]+)\. Release: (?P<release>[^.]+(?:\.\d+)*)\.$", re.MULTILINE)


def page(folder: pathlib.Path) -> str:
    """Return the whole page. Raises ValueError for a decision without a title."""
    rows = [_row(path) for path in sorted(folder.glob("[0-9]*.md"))]
    title = markdown.head("Decisions", "the pages beside it")
    return title + _INTRODUCTION + markdown.table(("number", "title", "status", "release"), rows)


def _row(path: pathlib.Path) -> markdown.Row:
    text = path.read_text(encoding="utf-8")
    title, status = _TITLE.search(text), _STATUS.search(text)
    if title is None:
        raise ValueError(f"{path.name}: no title, want `# NUMBER. TITLE`")
    undated = ("accepted" if "\nDecided " in text else "proposed", "")
    state = (status["status"], status["release"]) if status else undated
    return title["number"], f"[{title['title']}]({path.name})", *state
