"""The steps of docs/getting-started.md: those that the demo shows and its test runs.

The prose of the page is written by hand. The steps are between `<!-- steps: written by make update -->` and
`<!-- end -->`.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from typing import Final

from e2e.demo.steps import STEPS, Line, Step

_PLACE: Final = re.compile(r"(?<=<!-- steps: written by make update -->\n).*?(?=<!-- end -->)", re.DOTALL)
_WIDTH: Final = 110
_TEXT_WIDTH: Final = 120


def page(text: str) -> str:
    """Return the page with its steps generated again. Raises ValueError for a page without a place for them."""
    steps = "\n".join(_step(number, step) for number, step in enumerate(STEPS, 1))
    replaced, count = _PLACE.subn(lambda _: f"\n{steps}\n", text)
    if count != 1:
        raise ValueError("getting-started.md: want one place for the steps, see docs/generators/first_steps.py")
    return replaced


def _step(number: int, step: Step) -> str:
    lines = "\n".join(part for line in step.lines for part in _wrapped(line))
    text = textwrap.fill(step.text, _TEXT_WIDTH, break_long_words=False, break_on_hyphens=False)
    finds = "".join(f"\n`{line.finds}` in a command is the name of one of them.\n" for line in step.lines if line.finds)
    return f"### {number}. {step.title}\n\n{text}\n\n```shell\n{lines}\n```\n{finds}"


def _wrapped(line: Line) -> Iterator[str]:
    """Yield the lines of a command line, broken before flags where it is long."""
    shown = ""
    for part in re.split(r" (?=--)", line.text):
        if shown and len(shown) + len(part) + 3 > _WIDTH:
            yield f"{shown} \\"
            shown = f"  {part}"
        else:
            shown = f"{shown} {part}" if shown else part
    yield shown
