"""Sample mutants of each package, try them, and print how many no test sees.

    python -m tests.mutants [--count 30] [--seed 1] [--only manager/mid_resource ...] [--quick]

The first run records for a quarter of an hour which tests run which lines. A mutant is first tried with the tests of
its line, and where they pass, with those of its folder and of its part. It is printed as `killed`, `timeout` or
`survived`. A timeout is a mutant that does not end: it counts as killed. Results are kept in .cache/mutants by the text
of the mutant, and of a survivor by that of the tests too: an interrupted run continues where it ended, and a survivor
is tried again once a test has changed. Mutants that change nothing observable are in equivalent.txt. Exit code 1 means
that in a package more than --most percent survive.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import random
import signal
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.changes.__main__ import copied
from tests.charts import chart
from tests.mutants import lines, mutations, trials
from tests.mutants.lines import Lines
from tests.mutants.mutations import Mutant

ROOT: Final = Path(__file__).parents[2]
RESULTS: Final = ROOT / ".cache" / "mutants" / "results.jsonl"
LINES: Final = RESULTS.parent / "lines"
EQUIVALENT: Final = Path(__file__).parent / "equivalent.txt"
PACKAGES: Final = (*trials.SHARED, *trials.PARTS)


class Chosen(NamedTuple):
    """A mutant of the sample."""

    package: str
    file: str
    mutant: Mutant

    def key(self, tests: str = "") -> str:
        """Return the key of its result: of a survivor with the digest of the tests, else without."""
        return hashlib.sha256(f"{self.file}\0{self.mutant.source}\0{tests}".encode()).hexdigest()

    @property
    def name(self) -> str:
        """Return file, line and change."""
        return f"{self.file}:{self.mutant.line} {self.mutant.text}"


def equivalent() -> set[tuple[str, str]]:
    """Return file with change, and a part of the line, of each mutant that no test can see."""
    texts = EQUIVALENT.read_text(encoding="utf-8").splitlines()
    entries = [line.partition("  # ")[0].partition("  @ ") for line in texts if line and not line.startswith("#")]
    return {(mutant.strip(), part.strip()) for mutant, _, part in entries}


def sample(packages: Sequence[str], count: int, seed: int) -> list[Chosen]:
    """Choose `count` mutants of each package, each place that can be changed with the same chance."""
    ignored: dict[str, list[str]] = defaultdict(list)
    for mutant, part in equivalent():
        ignored[mutant].append(part)
    found: list[Chosen] = []
    for package in packages:
        files = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / package).rglob("*.py"))}
        lines_of = {str(path.relative_to(ROOT)): text.splitlines() for path, text in files.items()}
        places = [(path, position) for path, text in files.items() for position in range(mutations.count(text))]
        random.Random(f"{seed} {package}").shuffle(places)
        made = (
            Chosen(package, str(path.relative_to(ROOT)), mutations.mutant(files[path], position))
            for path, position in places
        )
        chosen = (
            each
            for each in made
            if not any(
                part in lines_of[each.file][each.mutant.line - 1]
                for part in ignored.get(f"{each.file} {each.mutant.text}", ())
            )
        )
        found += itertools.islice(chosen, count)
    return found


def known() -> dict[str, str]:
    """Return the results of earlier runs."""
    if not RESULTS.is_file():
        return {}
    texts = RESULTS.read_text(encoding="utf-8").splitlines()
    return {found["key"]: found["outcome"] for found in map(json.loads, texts)}


def tried(chosen: Iterable[Chosen], recorded: Lines, *, quick: bool = False) -> dict[Chosen, str]:
    """Try the mutants that have no result yet; return the outcome of each.

    With `quick` a mutant whose line has recorded tests is tried with these alone, another with those of its folder.
    """
    results = known()
    outcomes = {}
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, RESULTS.open("a", encoding="utf-8") as log:
        root = Path(folder)
        copied(root)
        trial = trials.Trials(root)
        for each in chosen:
            file, source = each.file, each.mutant.source
            of_line = recorded.tests(root, file, each.mutant.line)
            stages = [tests for tests in (of_line, trials.narrow(root, file), trials.wide(root, file)) if tests]
            ran = False
            for tests in stages[:1] if quick else stages:
                survival = each.key(trials.digest(tests, root))
                found = results.get(each.key()) or results.get(survival)
                if found is None:
                    ran = True
                    found = (trial.outcome_of_line if tests is of_line else trial.outcome)(tests, file, source)
                    key = survival if found == trials.SURVIVED else each.key()
                    log.write(json.dumps({"key": key, "outcome": found, "name": each.name}) + "\n")
                    log.flush()
                outcomes[each] = found
                if found != trials.SURVIVED:
                    break
            if ran:
                print(f"{outcomes[each]:9} {each.name}", flush=True)
    return outcomes


def record() -> None:
    """Run all tests in a copy, and write which lines each of them runs."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copied(Path(folder))
        lines.record(Path(folder), LINES, PACKAGES)


def table(outcomes: Mapping[Chosen, str]) -> tuple[str, float]:
    """Return the table of the packages with the survivors below it, and the largest share of survivors in percent."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for each, outcome in outcomes.items():
        counts[each.package][outcome] += 1
    rows = ["| package | mutants | killed | timeout | survived | share |", "|---|---|---|---|---|---|"]
    worst = 0.0
    for package, count in counts.items():
        killed, timeout, survived = (count[each] for each in (trials.KILLED, trials.TIMEOUT, trials.SURVIVED))
        share = 100 * survived / count.total()
        worst = max(worst, share)
        rows.append(f"| {package} | {count.total()} | {killed} | {timeout} | {survived} | {share:.0f} % |")
    survivors = [each.name for each, outcome in outcomes.items() if outcome == trials.SURVIVED]
    return "\n".join([*rows, "", *survivors]), worst


def main() -> int:
    """Run the sample; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=30, help="mutants of each package (default: 30)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (default: 1)")
    parser.add_argument("--only", nargs="+", default=list(PACKAGES), metavar="FOLDER", help="packages or folders")
    parser.add_argument("--most", type=float, default=8.0, help="largest share of survivors in percent (default: 8)")
    parser.add_argument("--quick", action="store_true", help="try only the tests of the line: an upper bound, sooner")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that the tests of a trial end too
    if program := chart.helm():
        os.environ["HELM"] = program  # a copy has none of its own, and a trial that renders the chart fails without one
    if not (LINES / lines.INDEX).is_file():  # also after an interrupted recording
        print("recording which tests run which lines ...", flush=True)
        record()
    text, worst = table(tried(sample(given.only, given.count, given.seed), Lines(LINES), quick=given.quick))
    print(text)
    return 0 if worst <= given.most else 1


if __name__ == "__main__":
    sys.exit(main())
