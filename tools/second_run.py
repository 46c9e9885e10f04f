"""`python -m tools.second_run ARGUMENTS`: run pytest, and run the tests that failed once more.

On a real cluster everything moves at the same time, and a test can lose a race. A test that passes in its second run,
in a new process and on a new cluster, does not fail the run: it is listed as flaky, and its cause has to be found.
More than `MOST` failed tests are no race, and have no second run. The last line has the form of pytest's summary.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

MOST: Final = 5
_WIDTH: Final = 80


def main(arguments: Sequence[str]) -> int:
    """Run pytest with these arguments, at most twice; return its exit code."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        counts = Path(folder, "counts.xml")
        words = [sys.executable, "-m", "pytest", "-o", f"cache_dir={folder}/cache", *arguments]
        first = subprocess.call([*words, f"--junitxml={counts}"])
        failed = _failed(Path(folder))
        if first != pytest.ExitCode.TESTS_FAILED or not 0 < len(failed) <= MOST:
            return first
        print(f"\nsecond run, of what failed: {' '.join(failed)}\n", flush=True)
        second = subprocess.call([*words, "--last-failed", "--last-failed-no-failures=none"])
        left = _failed(Path(folder)) if second else []
        for name in failed:
            print(f"{'FAILED twice' if name in left else 'FLAKY: failed once, passed once'}: {name}")
        ended = f"{_passed(counts) + len(failed) - len(left)} passed, {len(left)} failed, {len(failed)} run twice"
        print(f" {ended} in {time.monotonic() - began:.2f}s ".center(_WIDTH, "="))
        return second


def _failed(folder: Path) -> list[str]:
    """Return the names of the tests that failed in the last run; one that ended early has none."""
    file = folder / "cache" / "v" / "cache" / "lastfailed"
    return sorted(json.loads(file.read_text())) if file.exists() else []


def _passed(counts: Path) -> int:
    """Return how many tests passed; a test whose teardown failed counts as failed alone."""
    (suite,) = ET.parse(counts).getroot()
    cases: dict[tuple[str, str], bool] = {}
    for case in suite.iter("testcase"):
        name = (case.get("classname", ""), case.get("name", ""))
        cases[name] = cases.get(name, True) and len(case.findall("*[@message]")) == 0
    return sum(cases.values())


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
