"""Print an answer as a table, JSON, YAML, CSV or names. Text of the cluster never controls the terminal.

Names, messages and annotations are written by tenants and agents: characters that are not printable are escaped. JSON
and YAML are ASCII. Where the output is no terminal, a table is as wide as its content. A colour is never alone: the
row has a sign and a word as well.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import os
import shutil
import sys
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, Self, TextIO

import yaml

from koordctl.cli import document
from koordctl.cli.answer import UNKNOWN, Answer, Table

Color = Literal["auto", "always", "never"]
_LONGEST_CELL: Final = 1_000
_LONGEST_LINE: Final = 2_000
_MOST_DRAWN_ROWS: Final = 200  # rich takes half a millisecond for a row
_STYLES: Final = {"error": "red", "warning": "yellow"}
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
        encoding = to.encoding or "utf-8"
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
    """Return a cell that no spreadsheet takes for a formula."""
    clean = printable(text)
    return f"'{clean}" if clean[:1] in ("=", "+", "@") or (clean[:1] == "-" and clean != UNKNOWN) else clean


def _table_text(answer: Answer, to: TextIO, *, wide: bool, headers: bool, style: Style) -> str:
    is_colored = style.is_colored(to)
    lines = [printable(line, _LONGEST_LINE) for line in answer.head]
    for table in answer.tables:
        if lines:
            lines.append("")
        is_plain = not to.isatty() or len(table.rows) > _MOST_DRAWN_ROWS
        shown = _some_columns(table, [wide or not column.wide for column in table.columns])
        while to.isatty() and _width(shown) > shutil.get_terminal_size().columns:
            optional = [at for at, column in enumerate(shown.columns) if column.optional]
            if not optional:
                break
            shown = _some_columns(shown, [at != optional[-1] for at in range(len(shown.columns))])
        has_titles = headers and any(column.title for column in shown.columns)
        lines += (_plain if is_plain else _drawn)(shown, has_titles=has_titles, is_colored=is_colored)
        if answer.legend and headers and any(column.is_drawing for column in shown.columns):
            lines.append(answer.legend)
    lines += [printable(line, _LONGEST_LINE) for line in answer.tail]
    return "".join(style.drawn(line.rstrip(), to) + "\n" for line in lines)


def _some_columns(table: Table, is_shown: Sequence[bool]) -> Table:
    """Return a table of some columns, with text that controls no terminal."""
    rows = [[printable(cell) for cell in itertools.compress(row, is_shown)] for row in table.rows]
    return Table(list(itertools.compress(table.columns, is_shown)), rows, table.styles)


def _width(table: Table) -> int:
    columns = zip([column.title for column in table.columns], *table.rows, strict=True)
    return sum(max(map(len, cells)) + 2 for cells in columns)


def _plain(table: Table, *, has_titles: bool, is_colored: bool) -> list[str]:
    """Return the lines of a table as wide as its content."""
    cells = [[column.title for column in table.columns], *table.rows] if has_titles else table.rows
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    pads = [str.rjust if column.right else str.ljust for column in table.columns]
    lines = [
        "  ".join(pad(cell, width) for pad, cell, width in zip(pads, row, widths, strict=True)).rstrip()
        for row in cells
    ]
    if not is_colored or not table.styles:
        return lines
    codes = [""] * has_titles + [_CODES.get(style, "") for style in table.styles]
    return [f"\x1b[{code}m{line}\x1b[0m" if code else line for line, code in zip(lines, codes, strict=True)]


def _drawn(table: Table, *, has_titles: bool, is_colored: bool) -> list[str]:
    """Return the lines of a table as wide as the terminal."""
    from rich.console import Console  # noqa: PLC0415  # slow, and only for a terminal
    from rich.table import Table as RichTable  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    drawn = RichTable(box=None, pad_edge=False, show_header=has_titles, padding=(0, 2, 0, 0), header_style="bold")
    for column in table.columns:
        justify: Literal["right", "left"] = "right" if column.right else "left"
        drawn.add_column(Text(column.title), justify=justify, overflow="fold", no_wrap=column.is_drawing)
    for position, row in enumerate(table.rows):
        style = _STYLES.get(table.styles[position], "") if table.styles else ""
        drawn.add_row(*map(Text, row), style=style)
    console = Console(
        file=io.StringIO(),
        width=shutil.get_terminal_size().columns,
        force_terminal=is_colored,
        color_system="standard" if is_colored else None,
        no_color=not is_colored,  # it is not to read NO_COLOR itself
        markup=False,
        emoji=False,
        highlight=False,
    )
    with console.capture() as captured:
        console.print(drawn)
    return captured.get().splitlines()
