"""Compare the costs of agent, extender and manager in two checkouts, in interleaved rounds.

    python -m benchmarks.compare REF [--rounds 7] [--only agent extender manager] [--limit PERCENT]

REF is a folder with a checkout, or a git revision, which is checked out into a temporary worktree. It is compared with
this checkout. A round measures both sides one after the other, and the next round swaps their order, so that a change
of the load of the machine meets both. Both sides use this interpreter and its libraries. With a limit the exit code is
1 if a median grew by more.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.product_cost import COMPONENTS
from tools.localcluster import content_cache

HERE = content_cache.REPOSITORY


class Failed(Exception):
    """A measurement or a checkout failed; the message has its output."""


@contextlib.contextmanager
def checkout(ref: str) -> Iterator[Path]:
    """Yield the folder of a checkout: an existing one, or a temporary worktree of a revision."""
    if Path(ref).is_dir():
        yield Path(ref).resolve()
        return
    with tempfile.TemporaryDirectory(prefix="koord-suite-compare-") as folder:
        worktree = Path(folder, "checkout")
        git = ("git", "-C", str(HERE), "worktree")
        run([*git, "add", "--quiet", "--detach", str(worktree), ref])
        try:
            yield worktree
        finally:
            run([*git, "remove", "--force", str(worktree)])


def run(command: Sequence[str]) -> str:
    """Run a program and return its output. Raises Failed."""
    ended = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise Failed(f"{' '.join(command)}: exit {ended.returncode}\n{ended.stderr[-2000:]}")
    return ended.stdout


def measure(component: str, source: Path) -> dict[str, float]:
    """Return the costs of one component of a checkout, measured once."""
    output = run([sys.executable, "-m", "benchmarks.product_cost", component, "--source", str(source)])
    costs: dict[str, float] = json.loads(output.splitlines()[-1])
    return costs


def order(index: int, before: Path, after: Path) -> list[tuple[str, Path]]:
    """Return both sides in the order of a round."""
    sides = [("before", before), ("after", after)]
    return sides if index % 2 == 0 else sides[::-1]


def rows(costs: Mapping[str, Mapping[str, Sequence[float]]]) -> list[tuple[str, float, float, float]]:
    """Return name, median before, median after and their ratio, for costs by side and name."""
    medians = {side: {name: statistics.median(each) for name, each in named.items()} for side, named in costs.items()}
    return [
        (name, before, medians["after"][name], medians["after"][name] / before)
        for name, before in medians["before"].items()
    ]


def table(costs: Mapping[str, Mapping[str, Sequence[float]]]) -> str:
    """Return the Markdown table of all costs."""
    lines = ["| cost | before | after | ratio | range of before | range of after |", "|---|---|---|---|---|---|"]
    for name, before, after, ratio in rows(costs):
        ranges = [f"{min(each):.3g} to {max(each):.3g}" for each in (costs["before"][name], costs["after"][name])]
        lines.append(f"| {name} | {before:.3g} | {after:.3g} | {ratio:.2f} | {' | '.join(ranges)} |")
    return "\n".join(lines)


def compare(before: Path, after: Path, components: Sequence[str], rounds: int) -> dict[str, dict[str, list[float]]]:
    """Measure both sides in turns; return the values by side and name of the cost."""
    costs: dict[str, dict[str, list[float]]] = {"before": {}, "after": {}}
    began = time.monotonic()
    for index in range(rounds):
        for component in components:
            for side, source in order(index, before, after):
                for name, value in measure(component, source).items():
                    costs[side].setdefault(name, []).append(value)
        print(f"round {index + 1} of {rounds}, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return costs


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    top.add_argument(
        "ref", metavar="REF", help="folder with a checkout, or git revision, to compare this checkout with"
    )
    top.add_argument("--rounds", type=int, default=7, help="default: %(default)s")
    top.add_argument("--only", nargs="+", choices=list(COMPONENTS), default=list(COMPONENTS), help="default: all")
    top.add_argument("--limit", type=float, metavar="PERCENT", help="fail if a median grew by more")
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return 1 if something failed or grew beyond the limit, 130 after Ctrl-C."""
    chosen = parser().parse_args(argv)
    try:
        with checkout(chosen.ref) as before:
            costs = compare(before, HERE, chosen.only, chosen.rounds)
    except Failed as failure:
        print(f"error: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    print(table(costs))
    beyond = [name for name, _, _, ratio in rows(costs) if chosen.limit and ratio > 1 + chosen.limit / 100]
    for name in beyond:
        print(f"error: {name} grew by more than {chosen.limit:g} %", file=sys.stderr)
    return int(bool(beyond))


if __name__ == "__main__":
    sys.exit(main())
