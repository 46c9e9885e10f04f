"""Refresh the benchmark pages, and warn of those whose measured code has changed: `make bench-pages`.

    python -m benchmarks.pages [PAGE ...]     # run the commands of pages, and write what they print into them
    python -m benchmarks.pages --check        # print a line for each page that is older than what it measures; exit 0

A page ends with a section that names the commit of its tables, which are written by hand, and after a refresh the
commit and the output of its commands. Without PAGE all are refreshed but those that take hours or a cluster.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

REPOSITORY: Final = Path(__file__).parents[1]
DOCS: Final = Path("docs/benchmarks")
COMMIT: Final = re.compile(r"commit `([0-9a-f]{8,40})`")
SECTION: Final = re.compile(
    r"(?P<start><!-- figures: below `Printed` written by make bench-pages -->\n.*?)"
    r"(?P<printed>\n### Printed\n.*?)?(?P<end><!-- end -->)",
    re.DOTALL,
)


class Page(NamedTuple):
    """What a page measures."""

    commands: tuple[str, ...]
    """Arguments of `python -m` that print its figures."""
    code: tuple[str, ...]
    """Files and folders of which the figures depend."""
    by_name_only: bool = False
    """Whether it is refreshed only where it is named: it takes hours, or a cluster."""


_SHARED: Final = ("api_types", "apiserver_client", "component_base")
_EXTENDER: Final = (*_SHARED, "scheduler_plugin")
PAGES: Final[Mapping[str, Page]] = {
    "agent-cost": Page(
        ("benchmarks.bench_agent --python=-OO", "benchmarks.bench_agent_day", "benchmarks.bench_collect"),
        (*_SHARED, "koordlet"),
    ),
    "console-cost": Page(("benchmarks.bench_console --requests 20 --seconds 60",), ("fleet", "console")),
    "extender-cost": Page(
        (
            "benchmarks.bench_extender_memory --nodes 15000",
            "benchmarks.bench_node_metric_events",
            "benchmarks.bench_extender",
            "benchmarks.bench_scrape --nodes 15000",
        ),
        _EXTENDER,
    ),
    "fleet": Page(
        ("benchmarks.fleet --pictures docs/benchmarks",), (*_EXTENDER, "koordlet/report", "manager"), by_name_only=True
    ),
    "koordctl-cost": Page(("benchmarks.bench_fleet",), ("fleet", "koordctl")),
    "load-watcher-cost": Page(("benchmarks.bench_load_watcher",), (*_SHARED, "scheduler_plugin/load_watcher")),
    "manager-cost": Page(("benchmarks.bench_manager", "benchmarks.bench_manager_loop"), (*_SHARED, "manager")),
    "mid-beside-prod": Page(
        ("benchmarks.bench_mid_beside_prod",),
        ("api_types/mid_pods", "charts", "koordlet/cli/limiter"),
        by_name_only=True,
    ),
    "placement-quality": Page(("benchmarks.bench_placement --days 0.5",), _EXTENDER),
    "prediction-accuracy": Page(("benchmarks.bench_backtest",), ("koordlet/prediction", "koordctl/backtest")),
    "scheduler-cost": Page(("benchmarks.bench_scheduler", "benchmarks.bench_scheduler_burst"), _EXTENDER),
    "soak": Page(("e2e.soak",), (*_EXTENDER, "koordlet", "manager", "e2e/soak"), by_name_only=True),
    "take-back": Page(("benchmarks.bench_take_back",), (*_SHARED, "manager", "benchmarks/take_back.py")),
    "trimaran-cost": Page(("benchmarks.bench_trimaran --nodes 5000 --rounds 200",), _EXTENDER),
}


def refresh(name: str, root: Path = REPOSITORY, more: str = "") -> None:
    """Run the commands of a page, with `more` arguments, and write what they print to stdout.

    Raises RuntimeError where a command fails.
    """
    page, file = PAGES[name], root / DOCS / f"{name}.md"
    if changed := _git(root, "status", "--porcelain", "--", *page.code, "benchmarks"):
        raise RuntimeError(f"{name}: the commit would not name what is measured; commit first: {changed.split()[-1]}")
    parts = [f"\n### Printed\n\nAt commit `{_git(root, 'rev-parse', '--short=8', 'HEAD')}`, {_machine()}:\n"]
    for command in (f"{each} {more}".rstrip() for each in page.commands):
        words = [sys.executable, "-m", *command.split()]
        done = subprocess.run(words, cwd=root, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{name}: `python -m {command}`: exit {done.returncode}, want 0; its errors are above")
        parts.append(f"\n```text\n$ python -m {command}\n{done.stdout.rstrip()}\n```\n")
    file.write_text(with_printed(file.read_text(encoding="utf-8"), "".join(parts)), encoding="utf-8")


def with_printed(text: str, printed: str) -> str:
    """Return a page with other output. Raises ValueError where it has no section for it."""
    written, count = SECTION.subn(lambda found: f"{found['start']}{printed}{found['end']}", text)
    if count != 1:
        raise ValueError(f"{count} sections of figures, want one")
    return written


def measured_at(text: str) -> str:
    """Return the commit of the newest figures of a page. Raises ValueError where the page names none."""
    section = SECTION.search(text)
    commits = COMMIT.findall(section[0]) if section else []
    if not commits:
        raise ValueError("names no commit")
    return str(commits[-1])


def warning(name: str, root: Path = REPOSITORY) -> str:
    """Return a line about a page that is older than the code that it measures, or nothing."""
    page, file = PAGES[name], DOCS / f"{name}.md"
    commit = measured_at((root / file).read_text(encoding="utf-8"))
    try:
        later = int(_git(root, "rev-list", "--count", f"{commit}..HEAD", "--", *page.code))
    except subprocess.CalledProcessError:
        return f"{file}: commit {commit} is not in this clone, its age is not known"
    if not later:
        return ""
    return f"{file}: {later} commits have changed what it measures since {commit}; make bench-pages PAGES={name}"


def _machine() -> str:
    now = dt.datetime.now(dt.UTC).date()  # noqa: TID251
    load = os.getloadavg()[0]
    return f"{now}, {os.cpu_count()} CPUs, Python {platform.python_version()}, load {load:.1f} at the start"


def _git(root: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True).stdout.strip()


def main(argv: Sequence[str]) -> int:
    """Refresh or check pages, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pages", description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="*", metavar="PAGE", help=", ".join(PAGES))
    parser.add_argument("--arguments", default="", help="further arguments of the commands of the pages that are named")
    parser.add_argument("--check", action="store_true", help="write nothing; warn of pages that are old")
    arguments = parser.parse_args(argv)
    if unknown := set(arguments.pages) - set(PAGES):
        parser.error(f"no such page: {', '.join(sorted(unknown))}")
    if arguments.arguments and not arguments.pages:
        parser.error("--arguments: seen no page, want the names of the pages whose commands take them")
    if arguments.check:
        print("".join(f"warning: {line}\n" for line in map(warning, arguments.pages or PAGES) if line), end="")
        return 0
    for name in arguments.pages or [name for name, page in PAGES.items() if not page.by_name_only]:
        print(f"== {name}", flush=True)
        try:
            refresh(name, more=arguments.arguments)
        except RuntimeError as problem:
            print(problem, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
