"""Print an answer as a table, JSON, YAML, CSV or names. Text of the cluster never controls the terminal.

Names, messages and annotations are written by tenants and agents: characters that are not printable are escaped. JSON
and YAML are ASCII. Where the output is no terminal, a table is as wide as its content. A colour is never alone: the
row has a sign and a word as well.

Tables are not drawn by rich: 200 rows of 15 columns take 7 ms here and 228 ms there, its import 95 ms of CPU more, and
it breaks words, or cuts cells off, where a terminal is narrow.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import itertools
import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple, Self, TextIO

import yaml

from koordctl.cli import document
from koordctl.cli.answer import ERROR_SIGN, OK_SIGN, UNKNOWN, WARNING_SIGN, Answer, Number, Table

Color = Literal["auto", "always", "never"]
_LONGEST_CELL: Final = 1_000
_LONGEST_LINE: Final = 2_000
_GAP: Final = 2
_SIGN: Final = re.compile(f"^[{OK_SIGN}{WARNING_SIGN}{ERROR_SIGN}\u2013] ")
_CODES: Final = {"error": "31", "warning": "33"}
_ASCII: Final = str.maketrans({"✔": "+", "✘": "x", "\u2013": "-", "█": "#", "▓": "m", "░": ":", "·": ".", "│": "|"})


class Style(NamedTuple):
    """How tables are drawn; JSON, YAML, CSV and names have none."""

    color: Color = "auto"
    is_ascii: bool = False
    """Whether signs and bars are of ASCII; the text of the cluster is as it is, where the output can encode it."""

    def is_colored(self, to: TextIO) -> bool:
        """Decide whether to use colour."""
        if self.color != "auto":
            return self.color == "always"
        return to.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    def drawn(self, text: str, to: TextIO) -> str:
        """Return a line with the signs that the output can encode."""
        is_c = next(filter(None, map(os.environ.get, ("LC_ALL", "LC_CTYPE", "LANG"))), "") in ("C", "POSIX")
        encoding = "ascii" if is_c else to.encoding or "utf-8"  # Python writes UTF-8 in the locale C
        is_ascii = self.is_ascii or encoding.lower().replace("-", "") != "utf8"
        line = text.translate(_ASCII) if is_ascii else text
        return line.encode(encoding, "backslashreplace").decode(encoding)


def printable(text: str, longest: int = _LONGEST_CELL) -> str:
    """Return a text in one line that no terminal takes for a command, cut to a length."""
    if len(text) <= longest and text.isprintable():
        return text
    clean = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text[:longest])
    return clean if len(clean) <= longest and len(text) <= longest else f"{clean[: longest - 3]}..."


def show(
    answer: Answer, output: str, *, headers: bool = True, to: TextIO | None = None, style: Style = Style()  # noqa: B008
) -> int:  # fmt: skip
    """Print an answer; return its exit code."""
    out = to or sys.stdout
    out.write(_text(answer, output, out, headers=headers, style=style))
    sys.stderr.writelines(f"{printable(note, _LONGEST_LINE)}\n" for note in answer.notes)
    return answer.exit_code


class RepeatedOutput:
    """A place for repeated answers: one after the other, on a terminal each in the place of the one before."""

    def __init__(self, output: str, *, headers: bool, style: Style) -> None:
        self._output, self._headers, self._style = output, headers, style
        self._is_live = sys.stdout.isatty() and output in ("table", "wide")

    def __enter__(self) -> Self:
        """Begin."""
        if self._is_live:
            from rich.console import Console  # noqa: PLC0415  # slow, and only for a terminal
            from rich.live import Live  # noqa: PLC0415

            console = Console(
                markup=False, emoji=False, highlight=False, no_color=not self._style.is_colored(sys.stdout)
            )
            self._live = Live(console=console, auto_refresh=False, vertical_overflow="crop")
            self._live.start()
        return self

    def __exit__(self, *_error: object) -> None:
        """Leave the last answer on the terminal."""
        if self._is_live:
            self._live.stop()

    def show(self, answer: Answer) -> None:
        """Print the next answer."""
        if not self._is_live:
            show(answer, self._output, headers=self._headers, style=self._style)
            sys.stdout.write("\n" if self._output in ("table", "wide") else "")
            sys.stdout.flush()
            return
        from rich.text import Text  # noqa: PLC0415

        notes = "".join(f"{printable(note, _LONGEST_LINE)}\n" for note in answer.notes)
        text = _text(answer, self._output, sys.stdout, headers=self._headers, style=self._style)
        self._live.update(Text.from_ansi(text + self._style.drawn(notes, sys.stdout)), refresh=True)


def _text(answer: Answer, output: str, to: TextIO, *, headers: bool, style: Style) -> str:
    match output:
        case "json":
            return json.dumps(document.to_wire(answer.data), indent=2) + "\n"
        case "yaml":
            return f"{yaml.safe_dump(document.to_wire(answer.data), sort_keys=False, allow_unicode=False)}"
        case "csv":
            return style.drawn(_csv(answer.tables[0], headers=headers), to) if answer.tables else ""
        case "name":
            return "".join(f"{style.drawn(printable(name), to)}\n" for name in answer.names)
        case _:
            return _table_text(answer, to, wide=output == "wide", headers=headers, style=style)


def _csv(table: Table, *, headers: bool) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    is_shown = [not column.is_drawing for column in table.columns]
    if headers:
        writer.writerow(column.title for column in itertools.compress(table.columns, is_shown))
    writer.writerows(map(_csv_cell, itertools.compress(row, is_shown)) for row in table.rows)
    return out.getvalue()


def _csv_cell(text: str) -> str:
    """Return a plain number, nothing for what is not known, or a text without its sign that is no formula."""
    if isinstance(text, Number):
        return f"{text.plain:.10g}"
    clean = _SIGN.sub("", "" if text == UNKNOWN else printable(text))
    return f"'{clean}" if clean[:1] in ("=", "+", "@", "-") else clean


def _table_text(answer: Answer, to: TextIO, *, wide: bool, headers: bool, style: Style) -> str:
    is_colored, width = style.is_colored(to), shutil.get_terminal_size().columns + _GAP if to.isatty() else None
    lines = [printable(line, _LONGEST_LINE) for line in answer.head]
    for table in answer.tables:
        if lines:
            lines.append("")
        shown = _some_columns(table, [wide or not column.wide for column in table.columns])
        while width and sum(_widths(shown, len)) > width:
            optional = [at for at, column in enumerate(shown.columns) if column.optional]
            if not optional:
                break
            shown = _some_columns(shown, [at != optional[-1] for at in range(len(shown.columns))])
        has_titles = headers and any(column.title for column in shown.columns)
        if width and sum(_widths(shown, _longest_word)) > width:
            lines += _records(shown, width)
        else:
            lines += _plain(shown, width, has_titles=has_titles, is_colored=is_colored)
        if answer.legend and headers and any(column.is_drawing for column in shown.columns):
            lines.append(answer.legend)
    lines += [printable(line, _LONGEST_LINE) for line in answer.tail]
    return "".join(style.drawn(line.rstrip(), to) + "\n" for line in lines)


def _some_columns(table: Table, is_shown: Sequence[bool]) -> Table:
    """Return a table of some columns, with text that controls no terminal."""
    rows = [[printable(cell) for cell in itertools.compress(row, is_shown)] for row in table.rows]
    return Table(list(itertools.compress(table.columns, is_shown)), rows, table.styles)


def _widths(table: Table, measure: Callable[[str], int]) -> list[int]:
    """Return the width of each column, with the gap behind it."""
    columns = zip(table.columns, *table.rows, strict=True)
    return [
        max(map(len if column.is_drawing else measure, (column.title, *cells))) + _GAP for column, *cells in columns
    ]


def _longest_word(text: str) -> int:
    return max(map(len, text.split()), default=0)


def _plain(table: Table, width: int | None, *, has_titles: bool, is_colored: bool) -> list[str]:
    """Return the lines of a table as wide as its content, or with cells that are broken between words."""
    if not has_titles:
        table = Table([dataclasses.replace(column, title="") for column in table.columns], table.rows, table.styles)
    widths, least = _widths(table, len), _widths(table, _longest_word)
    while width and sum(widths) > width:
        at = max(range(len(widths)), key=lambda column: widths[column] - least[column])
        widths[at] -= 1
    lines = []
    titles = [("", [column.title for column in table.columns])] if has_titles else []
    for style, cells in (*titles, *zip(table.styles or [""] * len(table.rows), table.rows, strict=True)):
        parts = [_broken(text, width - _GAP) for text, width in zip(cells, widths, strict=True)]
        for words in itertools.zip_longest(*parts, fillvalue=""):
            padded = [
                word.rjust(width - _GAP) if column.right else word.ljust(width - _GAP)
                for word, width, column in zip(words, widths, table.columns, strict=True)
            ]
            line, code = (" " * _GAP).join(padded).rstrip(), _CODES.get(style, "")
            lines.append(f"\x1b[{code}m{line}\x1b[0m" if is_colored and code else line)
    return lines


def _records(table: Table, width: int) -> list[str]:
    """Return the lines of a table whose words do not fit beside one another: a line for each cell."""
    lines: list[str] = []
    for row in table.rows:
        cells = zip(table.columns, row, strict=True)
        texts = [f"{column.title}: {text.strip()}" for column, text in cells if text and not column.is_drawing]
        lines += [""] if row[0] and lines else []  # a row without a beginning belongs to the one before
        lines += [f"{'  ' * (at > 0)}{line}" for text in texts for at, line in enumerate(_broken(text, width - 4))]
    return lines


def _broken(text: str, width: int) -> list[str]:
    """Break a text between words, and a word that is longer than a line."""
    return [text] if len(text) <= width else textwrap.wrap(text, width, break_on_hyphens=False)
