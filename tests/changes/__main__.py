"""Apply each change to copies of the repository: whole, and without one of its files.

    python -m tests.changes [--whole] [FIRST WORDS OF A ROW]

The whole change must pass its checks, and each incomplete one must fail; `--whole` leaves out the incomplete ones. The
files must be those of the row in docs/contributing/architecture.md. Prints a table. Exit code 1 means that a row of the
page is not true.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.changes.changes import CHANGES, GENERATED, Change

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "contributing" / "architecture.md"
AT_ONCE = int(os.environ.get("AT_ONCE", "2"))


class Trial(NamedTuple):
    """A change without one of its files; the whole change if nothing is left out."""

    change: Change
    left_out: str


def named_files(row: str) -> set[str]:
    """Return the files and folders in the row of a change."""
    (line,) = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith(f"| {row}")]
    return set(re.findall(r"`([\w/-]+(?:\.py|\.md|/))`", line)) | ({GENERATED} if f"`{GENERATED}`" in line else set())


def needed_files(change: Change) -> set[str]:
    """Return the files of a change as the page names them: a new file by its folder."""
    new = {path: f"{path.rpartition('/')[0]}/" for path, edits in change.edits.items() if not edits[0].anchor}
    return {new.get(path, path) for path in change.edits} | ({GENERATED} if change.is_generating else set())


def copied(target: Path) -> None:
    """Copy the files of this checkout."""
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    for name in subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines():
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def applied(trial: Trial, target: Path) -> None:
    """Apply the edits, without those of the file that is left out. Raises LookupError if an anchor is gone."""
    for name, edits in trial.change.edits.items():
        if name == trial.left_out:
            continue
        for edit in edits:
            text = (target / name).read_text(encoding="utf-8") if edit.anchor else ""
            at = text.find(edit.anchor)
            if at < 0:
                raise LookupError(f"{name}: no longer contains {edit.anchor!r}, update tests/changes/changes.py")
            at += 0 if edit.before else len(edit.anchor)
            (target / name).write_text(text[:at] + edit.text + text[at:], encoding="utf-8")


def passes(trial: Trial) -> tuple[bool, str]:
    """Return whether the checks pass, and the end of their output."""
    with tempfile.TemporaryDirectory(prefix="change-") as folder:
        copied(Path(folder))
        applied(trial, Path(folder))
        commands = [
            [sys.executable, "-m", "crds.generate", "--check"],
            [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *trial.change.checks],
        ]
        if trial.left_out != GENERATED:
            commands.insert(0, [sys.executable, "-m", "crds.generate"])
        for command in commands:
            ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            if ended.returncode:
                return False, (ended.stdout + ended.stderr)[-2000:]
    return True, ""


def main(argv: Sequence[str]) -> int:
    """Try all changes and print the table."""
    parser = argparse.ArgumentParser(description="Apply each change to copies of the repository.")
    parser.add_argument("--whole", action="store_true", help="leave out the incomplete changes")
    parser.add_argument("rows", nargs="*", help="first words of the rows to try (default: all)")
    arguments = parser.parse_args(argv)
    rows = arguments.rows
    chosen = [change for change in CHANGES if not rows or change.row.startswith(tuple(rows))]
    is_true = True
    for change in chosen:
        if named_files(change.row) != needed_files(change):
            is_true = False
            print(
                f"{change.row}: the page names {sorted(named_files(change.row))}, needed {sorted(needed_files(change))}"
            )
    trials = [
        Trial(change, left_out)
        for change in chosen
        for left_out in ("", *change.edits, *([GENERATED] if change.is_generating else []))
        if not (arguments.whole and left_out)
        if len(change.edits) > 1 or left_out not in change.edits  # without its only file nothing changes
    ]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for trial, (passed, output) in zip(trials, pool.map(passes, trials), strict=True):
            expected = passed is not bool(trial.left_out)
            is_true &= expected
            result = "passes" if passed else "fails"
            print(
                f"{trial.change.row:40} {trial.left_out or '(whole)':55} {result:7} {'' if expected else 'WRONG'}",
                flush=True,
            )
            if not expected:
                print(output)
    failed = 0 if is_true else 1
    print(f"{len(trials) - failed} passed, {failed} failed")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
