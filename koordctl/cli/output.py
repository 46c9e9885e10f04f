"""Print an answer as a table, JSON, YAML, CSV or names. Text of the cluster never controls the terminal.

Names, messages and annotations are written by tenants and agents: characters that are not printable are escaped. JSON
and YAML are ASCII. Where the output is no terminal, a table is as wide as its content and has no colour.
"""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import sys
from typing import Any, Final, TextIO

import yaml
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from koordctl.cli.answer import API_VERSION, UNKNOWN, Answer, Table

_LONGEST_CELL: Final = 300
_MOST_DRAWN_ROWS: Final = 200  # rich takes half a millisecond for a row
_STYLES: Final = {"error": "red", "warning": "yellow"}


def printable(text: str, longest: int = _LONGEST_CELL) -> str:
    """Return a text in one line that no terminal takes for a command, cut to a length."""
    if len(text) <= longest and text.isprintable():
        return text
    clean = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text[:longest])
    return clean if len(clean) <= longest and len(text) <= longest else f"{clean[: longest - 3]}..."


def show(answer: Answer, output: str, *, headers: bool = True, to: TextIO | None = None) -> int:
    """Print an answer; return its exit code."""
    out = to or sys.stdout
    if output == "json":
        out.write(json.dumps(_document(answer), indent=2) + "\n")
    elif output == "yaml":
        out.write(yaml.safe_dump(_document(answer), sort_keys=False, allow_unicode=False))
    elif output == "csv":
        out.write(_csv(answer.tables[0], headers=headers))
    elif output == "name":
        out.writelines(f"{printable(name)}\n" for name in answer.names)
    else:
        _table_text(answer, out, wide=output == "wide", headers=headers)
    sys.stderr.writelines(f"{printable(note, 2_000)}\n" for note in answer.notes)
    return answer.exit_code


def _document(answer: Answer) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": answer.kind, **answer.data}


def _csv(table: Table, *, headers: bool) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if headers:
        writer.writerow([column.title for column in table.columns])
    writer.writerows([_csv_cell(cell) for cell in row] for row in table.rows)
    return out.getvalue()


def _csv_cell(text: str) -> str:
    """Return a cell that no spreadsheet takes for a formula."""
    clean = printable(text)
    return f"'{clean}" if clean[:1] in ("=", "+", "@") or (clean[:1] == "-" and clean != UNKNOWN) else clean


def _table_text(answer: Answer, out: TextIO, *, wide: bool, headers: bool) -> None:
    lines = [printable(line) for line in answer.head]
    for table in answer.tables:
        if lines:
            lines.append("")
        is_plain = not out.isatty() or len(table.rows) > _MOST_DRAWN_ROWS
        lines += (_plain if is_plain else _drawn)(table, wide=wide, headers=headers)
    lines += [printable(line) for line in answer.tail]
    encoding = out.encoding or "utf-8"
    out.writelines(line.rstrip().encode(encoding, "backslashreplace").decode(encoding) + "\n" for line in lines)


def _plain(table: Table, *, wide: bool, headers: bool) -> list[str]:
    """Return the lines of a table as wide as its content, without colour."""
    shown = [number for number, column in enumerate(table.columns) if wide or not column.wide]
    cells = [[table.columns[number].title for number in shown]] if headers else []
    cells += [[printable(row[number]) for number in shown] for row in table.rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    pads = [str.rjust if table.columns[number].right else str.ljust for number in shown]
    return ["  ".join(pad(cell, width) for pad, cell, width in zip(pads, row, widths, strict=True)) for row in cells]


def _drawn(table: Table, *, wide: bool, headers: bool) -> list[str]:
    """Return the lines of a table as wide as the terminal, with colour unless NO_COLOR is set."""
    console = Console(
        file=io.StringIO(),
        width=shutil.get_terminal_size().columns,
        force_terminal=not os.environ.get("NO_COLOR"),
        markup=False,
        emoji=False,
        highlight=False,
    )
    with console.capture() as captured:
        console.print(_rich(table, wide=wide, headers=headers))
    return captured.get().splitlines()


def _rich(table: Table, *, wide: bool, headers: bool) -> RichTable:
    shown = [number for number, column in enumerate(table.columns) if wide or not column.wide]
    made = RichTable(box=None, pad_edge=False, show_header=headers, padding=(0, 2, 0, 0), header_style="bold")
    for number in shown:
        column = table.columns[number]
        made.add_column(Text(column.title), justify="right" if column.right else "left", overflow="fold")
    for position, row in enumerate(table.rows):
        style = _STYLES.get(table.styles[position], "") if table.styles else ""
        made.add_row(*(Text(printable(row[number])) for number in shown), style=style)
    return made
