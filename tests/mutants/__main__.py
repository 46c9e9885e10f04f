"""Sample mutants of each package, try them, and print how many no test sees.

    python -m tests.mutants [--count 30] [--seed 1] [--only manager/mid_resource ...]

The first run records for a quarter of an hour which tests run which lines. A mutant is tried with the tests of its
line, and where none is recorded, with those of its folder. It is printed as `killed`, `timeout` (it does not end, and
counts as killed) or `survived`. What was killed is kept in .cache/mutants: an interrupted run continues where it ended.
Exit code 1 means that in a package more than --most percent survive. Mutants that change nothing observable are among
them: about 3 percent.
"""

from __future__ import annotations

import argparse
import hashlib
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
KILLED: Final = ROOT / ".cache" / "mutants" / "killed"
LINES: Final = KILLED.parent / "lines"
PACKAGES: Final = (*trials.SHARED, *trials.PARTS)


class Chosen(NamedTuple):
    """A mutant of the sample."""

    package: str
    file: str
    mutant: Mutant

    @property
    def key(self) -> str:
        """Return the key of its result."""
        return hashlib.sha256(f"{self.file}\0{self.mutant.source}".encode()).hexdigest()

    @property
    def name(self) -> str:
        """Return file, line and change."""
        return f"{self.file}:{self.mutant.line} {self.mutant.text}"


def sample(packages: Sequence[str], count: int, seed: int) -> list[Chosen]:
    """Choose `count` mutants of each package, each place that can be changed with the same chance."""
    chosen: list[Chosen] = []
    for package in packages:
        files = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / package).rglob("*.py"))}
        places = [(path, position) for path, text in files.items() for position in range(mutations.count(text))]
        random.Random(f"{seed} {package}").shuffle(places)
        for path, position in places[:count]:
            mutant = mutations.mutant(files[path], position)
            chosen.append(Chosen(package, str(path.relative_to(ROOT)), mutant))
    return chosen


def killed_before() -> set[str]:
    """Return the keys of the mutants that earlier runs have killed."""
    return set(KILLED.read_text(encoding="utf-8").split()) if KILLED.is_file() else set()


def tried(chosen: Iterable[Chosen], recorded: Lines) -> dict[Chosen, str]:
    """Try the mutants that no earlier run has killed; return the outcome of each."""
    killed = killed_before()
    outcomes = {}
    KILLED.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, KILLED.open("a", encoding="utf-8") as log:
        root = Path(folder)
        copied(root)
        trial = trials.Trials(root)
        for choice in chosen:
            if choice.key in killed:
                outcomes[choice] = trials.KILLED
                continue
            file, source = choice.file, choice.mutant.source
            if tests := recorded.tests(root, file, choice.mutant.line):
                outcome = trial.outcome_of_line(tests, file, source)
            else:
                outcome = trial.outcome(trials.narrow(root, file), file, source)
            if outcome != trials.SURVIVED:
                print(choice.key, file=log, flush=True)
            outcomes[choice] = outcome
            print(f"{outcome:9} {choice.name}", flush=True)
    return outcomes


def record() -> None:
    """Run all tests in a copy, and write which lines each of them runs."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copied(Path(folder))
        lines.record(Path(folder), LINES, PACKAGES)


def table(outcomes: Mapping[Chosen, str]) -> tuple[str, float]:
    """Return the table of the packages with the survivors below it, and the largest share of survivors in percent."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for choice, outcome in outcomes.items():
        counts[choice.package][outcome] += 1
    rows = ["| package | mutants | killed | timeout | survived | share |", "|---|---|---|---|---|---|"]
    worst = 0.0
    for package, count in counts.items():
        killed, timeout, survived = count[trials.KILLED], count[trials.TIMEOUT], count[trials.SURVIVED]
        share = 100 * survived / count.total()
        worst = max(worst, share)
        rows.append(f"| {package} | {count.total()} | {killed} | {timeout} | {survived} | {share:.0f} % |")
    survivors = [choice.name for choice, outcome in outcomes.items() if outcome == trials.SURVIVED]
    return "\n".join([*rows, "", *survivors]), worst


def main() -> int:
    """Run the sample; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=30, help="mutants of each package (default: 30)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (default: 1)")
    parser.add_argument("--only", nargs="+", default=list(PACKAGES), metavar="FOLDER", help="packages or folders")
    parser.add_argument("--most", type=float, default=8.0, help="largest share of survivors in percent (default: 8)")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that the tests of a trial end too
    if program := chart.helm():
        os.environ["HELM"] = program  # a copy has none of its own, and a trial that renders the chart fails without one
    if not (LINES / lines.INDEX).is_file():  # also after an interrupted recording
        print("recording which tests run which lines ...", flush=True)
        record()
    text, worst = table(tried(sample(arguments.only, arguments.count, arguments.seed), Lines(LINES)))
    print(text)
    return 0 if worst <= arguments.most else 1


if __name__ == "__main__":
    sys.exit(main())
