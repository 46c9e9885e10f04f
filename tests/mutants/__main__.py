"""Sample mutants of each package, try them, and print how many no test sees.

    python -m tests.mutants [--count 30] [--seed 1] [--only manager/mid_resource ...]

Results are kept in .cache/mutants by the text of the mutant and of its file: an interrupted run continues where it
ended, and an unchanged file is not tried again. Mutants that change nothing observable are in equivalent.txt. Exit code
1 means that in a package more than --most percent survive.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import random
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.changes.__main__ import copied
from tests.charts import chart
from tests.mutants import mutations, trials
from tests.mutants.mutations import Mutant

ROOT: Final = Path(__file__).parents[2]
RESULTS: Final = ROOT / ".cache" / "mutants" / "results.jsonl"
EQUIVALENT: Final = Path(__file__).parent / "equivalent.txt"
PACKAGES: Final = (
    "api_types", "apiserver_client", "component_base", "fleet", "koordctl", "koordlet", "manager", "scheduler_plugin",
)  # fmt: skip


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


def equivalent() -> set[str]:
    """Return the file and change of each mutant that no test can see."""
    lines = EQUIVALENT.read_text(encoding="utf-8").splitlines()
    return {line.partition("  # ")[0].strip() for line in lines if line and not line.startswith("#")}


def sample(packages: Sequence[str], count: int, seed: int) -> list[Chosen]:
    """Choose `count` mutants of each package, each place that can be changed with the same chance."""
    ignored = equivalent()
    found: list[Chosen] = []
    for package in packages:
        files = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / package).rglob("*.py"))}
        places = [(path, position) for path, text in files.items() for position in range(mutations.count(text))]
        random.Random(f"{seed} {package}").shuffle(places)
        made = (
            Chosen(package, str(path.relative_to(ROOT)), mutations.mutant(files[path], position))
            for path, position in places
        )
        found += itertools.islice((each for each in made if f"{each.file} {each.mutant.text}" not in ignored), count)
    return found


def known() -> dict[str, str]:
    """Return the results of earlier runs."""
    if not RESULTS.is_file():
        return {}
    lines = RESULTS.read_text(encoding="utf-8").splitlines()
    return {found["key"]: found["outcome"] for found in map(json.loads, lines)}


def tried(chosen: Iterable[Chosen]) -> dict[str, str]:
    """Try the mutants that have no result yet; return all results by key."""
    results = known()
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, RESULTS.open("a", encoding="utf-8") as log:
        copied(Path(folder))
        trial = trials.Trials(Path(folder))
        for each in chosen:
            if each.key in results:
                continue
            results[each.key] = trial.outcome(each.file, each.mutant.source)
            log.write(json.dumps({"key": each.key, "outcome": results[each.key], "name": each.name}) + "\n")
            log.flush()
            print(f"{results[each.key]:9} {each.name}", flush=True)
    return results


def table(chosen: Iterable[Chosen], results: dict[str, str]) -> tuple[str, float]:
    """Return the table of the packages with the survivors below it, and the largest share of survivors in percent."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    survivors = []
    for each in chosen:
        counts[each.package][results[each.key]] += 1
        if results[each.key] == trials.SURVIVED:
            survivors.append(each.name)
    lines = ["| package | mutants | killed | survived | share |", "|---|---|---|---|---|"]
    worst = 0.0
    for package, count in counts.items():
        share = 100 * count[trials.SURVIVED] / count.total()
        worst = max(worst, share)
        lines.append(
            f"| {package} | {count.total()} | {count[trials.KILLED]} | {count[trials.SURVIVED]} | {share:.0f} % |"
        )
    return "\n".join([*lines, "", *survivors]), worst


def main() -> int:
    """Run the sample; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=30, help="mutants of each package (default: 30)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (default: 1)")
    parser.add_argument("--only", nargs="+", default=list(PACKAGES), metavar="FOLDER", help="packages or folders")
    parser.add_argument("--most", type=float, default=8.0, help="largest share of survivors in percent (default: 8)")
    given = parser.parse_args()
    if program := chart.helm():
        os.environ["HELM"] = program  # a copy has none of its own, and a trial that renders the chart fails without one
    chosen = sample(given.only, given.count, given.seed)
    text, worst = table(chosen, tried(chosen))
    print(text)
    return 0 if worst <= given.most else 1


if __name__ == "__main__":
    sys.exit(main())
