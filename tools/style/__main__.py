"""Refuse banned words in the product, the tools, the docs and the chart: `python -m tools.style [PATH...]`.

`banned_words.txt` lists the words, `exceptions.txt` the exceptions. Exit code 1 means that a word was found, or that an
exception matches nothing. Without a path, files and functions that are too large are refused too, and the whole product
where too many of its names are loose, or have two meanings.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tools.style import names, sizes

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
SKIPPED_SUFFIXES = (".svg", ".png", ".gz", ".sum", ".json")
SKIPPED_FOLDERS = ("tests/", ".github/ISSUE_TEMPLATE/")


class Use(NamedTuple):
    """One banned word in one line."""

    path: str
    line: int
    word: str
    text: str


class Allowed(NamedTuple):
    """One line of exceptions.txt. The word `*` allows every word in the file."""

    path: str
    word: str

    def covers(self, use: Use) -> bool:
        """Return whether this exception allows that use."""
        return self.path == use.path and self.word in ("*", use.word.lower())


def entries(path: Path) -> list[str]:
    """Return the lines of a list without comments and blank lines."""
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def pattern(words: Sequence[str]) -> re.Pattern[str]:
    """Compile the ban list. Underscores and digits separate words, so parts of identifiers count."""
    return re.compile(rf"(?<![A-Za-z])(?:{'|'.join(words)})(?![A-Za-z])", re.IGNORECASE)


def uses(path: str, text: str, banned: re.Pattern[str]) -> Iterator[Use]:
    """Yield every banned word of a text."""
    for number, line in enumerate(text.splitlines(), start=1):
        for found in banned.finditer(line):
            yield Use(path, number, found[0], line.strip())


def tracked_files(paths: Sequence[str]) -> list[str]:
    """Return the files of this checkout that the check covers, relative to its root."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *paths],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    names = listed.stdout.splitlines()
    return [name for name in names if not name.startswith(SKIPPED_FOLDERS) and not name.endswith(SKIPPED_SUFFIXES)]


def main(paths: Sequence[str]) -> int:
    """Print every use that no exception covers. Return the exit code."""
    banned = pattern(entries(HERE / "banned_words.txt"))
    allowed = [Allowed(*(part.strip() for part in line.split(":")[:2])) for line in entries(HERE / "exceptions.txt")]
    found = [
        use
        for name in tracked_files(paths)
        if (REPOSITORY / name).is_file()
        for use in uses(name, (REPOSITORY / name).read_text(encoding="utf-8"), banned)
    ]
    refused = [use for use in found if not any(each.covers(use) for each in allowed)]
    for use in refused:
        print(f'{use.path}:{use.line}: "{use.word}" is on the ban list: {use.text[:120]}')
    unused = [] if paths else [each for each in allowed if not any(each.covers(use) for use in found)]
    for each in unused:
        print(f"tools/style/exceptions.txt: {each.path}: {each.word}: matches nothing, remove the line")
    if refused:
        print(f"{len(refused)} uses of banned words; docs/contributing/style.md lists replacements")
    beyond_bounds = [] if paths else [*sizes.problems(REPOSITORY), *names.problems(REPOSITORY)]
    for line in beyond_bounds:
        print(line)
    return 1 if refused or unused or beyond_bounds else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
