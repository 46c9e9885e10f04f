"""Answer of a command, before it is printed, and the texts of its amounts. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self, TypeVar

from api_types.kubernetes import times

if TYPE_CHECKING:  # the help needs no document, and its import is slow
    from koordctl.cli.document import AnswerDocument

FINE, NOTHING, WRONG_USAGE, NOT_READ, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit codes, the same for every format: fine, the answer is no, wrong usage, the cluster was not read."""
FORMATS: Final = ("table", "wide", "json", "yaml", "csv", "name")
UNKNOWN: Final = "-"
OK_SIGN, WARNING_SIGN, ERROR_SIGN = "✔", "!", "✘"
"""Signs before a word; the output replaces them where it is ASCII."""
_BAR: Final = "█"
T = TypeVar("T")


@dataclass(frozen=True)
class Column:
    """A column of a table; one that is `wide` is shown with `-o wide` only."""

    title: str
    right: bool = False
    wide: bool = False
    is_drawing: bool = False
    """Whether it has bars or signs: they are never broken into lines, and are not part of CSV."""
    optional: bool = False
    """Whether a terminal that is too narrow for the table does not show it; the last one goes first."""


def numbers(*titles: str) -> list[Column]:
    """Return columns of numbers."""
    return [Column(title, right=True) for title in titles]


@dataclass(frozen=True)
class Table:
    """A table of text; `styles` has the severity of a row."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]
    styles: Sequence[str] = ()


Cell = tuple[Column, Callable[[T], str]]
"""A column, and the text of an item in it."""


def number(title: str, text: Callable[[T], str]) -> Cell[T]:
    """Return a column of numbers."""
    return Column(title, right=True), text


def table(items: Sequence[T], cells: Sequence[Cell[T]], styles: Sequence[str] = ()) -> Table:
    """Return a table with a row for each item."""
    return Table([column for column, _ in cells], [tuple(text(item) for _, text in cells) for item in items], styles)


@dataclass(frozen=True)
class Answer:
    """Answer of a command. The first table is the one of CSV; `names` are `kind/name`."""

    data: AnswerDocument
    tables: Sequence[Table] = ()
    names: Sequence[str] = ()
    head: Sequence[str] = ()
    tail: Sequence[str] = ()
    exit_code: int = FINE
    notes: Sequence[str] = ()
    """Lines for standard error: what could not be read."""
    legend: str = ""
    """Meaning of the signs in an optional column; it is shown with the column and the titles of the table."""


class Number(str):
    """Text of an amount; CSV has the plain number, in the unit of the table: cores, GiB, percent or seconds."""

    __slots__ = ("plain",)
    plain: float

    def __new__(cls, text: str, plain: float) -> Self:
        """Return the text."""
        number = super().__new__(cls, text)
        number.plain = plain
        return number


def cores(millis: float | None, mark: str = "") -> str:
    """Format milli-cores as cores, below one core as milli-cores; CSV does not have the mark behind it."""
    if millis is None:
        return UNKNOWN
    return Number((f"{millis:.0f}m" if 0 < abs(millis) < 1000 else f"{millis / 1000:.1f}") + mark, millis / 1000)


def core_count(millis: float | None) -> str:
    """Format milli-cores as the number of a sentence about cores, without rounding."""
    return UNKNOWN if millis is None else f"{millis / 1000:g}"


def gib(count: float | None) -> str:
    """Format bytes as GiB."""
    return UNKNOWN if count is None else Number(f"{count / 2**30:.1f}", count / 2**30)


def share(percent: float | None) -> str:
    """Format a share in percent."""
    return UNKNOWN if percent is None else Number(f"{percent:.0f}%", percent)


def bar(amount: float, whole: float, length: int) -> str:
    """Draw an amount as a bar of at most `length` characters; an amount above 0 has one at least."""
    if amount <= 0 or whole <= 0:
        return ""
    return _BAR * min(max(round(length * amount / whole), 1), length)


def age(seconds: float | None) -> str:
    """Format an age by its largest unit, as kubectl does."""
    return UNKNOWN if seconds is None else Number(times.short_age(seconds), seconds)
