"""Refresh the benchmark pages, and warn of those whose measured code has changed: `make bench-pages`.

    python -m benchmarks.pages [NAME ...]     # run the commands of pages, and write what they print into them
    python -m benchmarks.pages --check        # print a line for each page that is older than what it measures; exit 0

A page ends with a section that names the commit of its tables, which are written by hand, and after a refresh the
commit and the output of each command. A page is as old as the oldest of them. A NAME is a page, or one program such as
bench_admission, whose output replaces its last one only. Without NAME all pages are refreshed, but those and the
programs that take hours, a cluster or more than this repository.
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
BLOCK: Final = re.compile(r"\nAt commit [^\n]*\n\n```text\n\$ python -m (?P<command>[^\n]+)\n.*?\n```\n", re.DOTALL)
"""Output of one command."""


class Page(NamedTuple):
    """What a page measures."""

    commands: tuple[str, ...]
    """Arguments of `python -m` that print its figures."""
    code: tuple[str, ...]
    """Files and folders of which the figures depend."""
    by_name_only: bool = False
    """Whether it is refreshed only where it is named: it takes hours, or a cluster."""
    more: tuple[str, ...] = ()
    """Commands that run only where their program or page is named."""


_SHARED: Final = ("api_types", "apiserver_client", "component_base")
_EXTENDER: Final = (*_SHARED, "scheduler_plugin")
PAGES: Final[Mapping[str, Page]] = {
    "agent-cost": Page(
        ("benchmarks.bench_agent --python=-OO", "benchmarks.bench_agent_day", "benchmarks.bench_collect"),
        (*_SHARED, "koordlet"),
        more=("benchmarks.bench_prediction",),
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
        more=("benchmarks.bench_decision_records", "benchmarks.bench_restart"),
    ),
    "fleet": Page(
        ("benchmarks.fleet --pictures docs/benchmarks",), (*_EXTENDER, "koordlet/report", "manager"), by_name_only=True
    ),
    "koordctl-cost": Page(
        ("benchmarks.bench_fleet",),
        ("fleet", "koordctl", "koordlet/collectors/snapshot.py", "koordlet/metric_cache/aggregation.py"),
        more=("benchmarks.bench_estimate", "benchmarks.bench_koordctl --nodes 100", "benchmarks.bench_hidden_peaks"),
    ),
    "load-watcher-cost": Page(("benchmarks.bench_load_watcher",), (*_SHARED, "scheduler_plugin/load_watcher")),
    "manager-cost": Page(
        ("benchmarks.bench_manager", "benchmarks.bench_manager_loop"),
        (*_SHARED, "manager"),
        more=("benchmarks.bench_admission", "benchmarks.bench_workload_history"),
    ),
    "mid-beside-prod": Page(
        ("benchmarks.bench_mid_beside_prod", "benchmarks.bench_mid_utilisation --minutes 30 --days 2"),
        ("api_types/mid_pods", "charts", "koordlet/mid_suppression", "manager/mid_resource"),
        by_name_only=True,
    ),
    "placement-quality": Page(("benchmarks.bench_placement --days 0.5",), _EXTENDER),
    "prediction-accuracy": Page(
        ("benchmarks.bench_backtest",),
        ("koordlet/prediction", "koordctl/backtest"),
        more=("benchmarks.bench_calibrated",),
    ),
    "scheduler-cost": Page(("benchmarks.bench_scheduler", "benchmarks.bench_scheduler_burst"), _EXTENDER),
    "soak": Page(("e2e.soak",), (*_EXTENDER, "koordlet", "manager", "e2e/soak"), by_name_only=True),
    "take-back": Page(("benchmarks.bench_take_back",), (*_SHARED, "manager", "benchmarks/take_back.py")),
    "trimaran-cost": Page(("benchmarks.bench_trimaran --nodes 5000 --rounds 200",), _EXTENDER),
}


def program(command: str) -> str:
    """Return the name of a command's program."""
    return command.split(maxsplit=1)[0].rpartition(".")[2]


def commands_of(names: Sequence[str]) -> dict[str, list[str]]:
    """Return the commands to run by page. Raises ValueError where a name is none of a page or program."""
    if not names:
        return {name: list(page.commands) for name, page in PAGES.items() if not page.by_name_only}
    every = {name: [*page.commands, *page.more] for name, page in PAGES.items()}
    programs = {program(command): (name, command) for name, commands in every.items() for command in commands}
    found: dict[str, list[str]] = {}
    for wanted in names:
        if wanted in every:
            found[wanted] = every[wanted]
        elif wanted in programs:
            name, command = programs[wanted]
            found[name] = list(dict.fromkeys([*found.get(name, ()), command]))
        else:
            raise ValueError(wanted)
    return found


def refresh(name: str, commands: Sequence[str], root: Path = REPOSITORY, more: str = "") -> None:
    """Run commands of a page, with `more` arguments, and write what they print to stdout in place of their last output.

    Raises RuntimeError where a command fails.
    """
    page, file = PAGES[name], root / DOCS / f"{name}.md"
    if changed := _git(root, "status", "--porcelain", "--", *page.code, "benchmarks"):
        raise RuntimeError(f"{name}: the commit would not name what is measured; commit first: {changed.split()[-1]}")
    text = file.read_text(encoding="utf-8")
    section = SECTION.search(text)
    blocks = {program(each["command"]): each[0] for each in BLOCK.finditer(section[0] if section else "")}
    for command in (f"{each} {more}".rstrip() for each in commands):
        head = f"At commit `{_git(root, 'rev-parse', '--short=8', 'HEAD')}`, {_machine()}:"
        words = [sys.executable, "-m", *command.split()]
        done = subprocess.run(words, cwd=root, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{name}: `python -m {command}`: exit {done.returncode}, want 0; its errors are above")
        blocks[program(command)] = f"\n{head}\n\n```text\n$ python -m {command}\n{done.stdout.rstrip()}\n```\n"
    ordered = [blocks[each] for each in map(program, (*page.commands, *page.more)) if each in blocks]
    file.write_text(with_printed(text, "\n### Printed\n" + "".join(ordered)), encoding="utf-8")


def with_printed(text: str, printed: str) -> str:
    """Return a page with other output. Raises ValueError where it has no section for it."""
    written, count = SECTION.subn(lambda found: f"{found['start']}{printed}{found['end']}", text)
    if count != 1:
        raise ValueError(f"{count} sections of figures, want one")
    return written


def commits_of(text: str) -> tuple[list[str], list[str]]:
    """Return the commits of a page's tables, and those of its output. Raises ValueError where the page names none."""
    section = SECTION.search(text)
    by_hand, printed = (COMMIT.findall(section[part] or "") if section else [] for part in ("start", "printed"))
    if not by_hand and not printed:
        raise ValueError("names no commit")
    return by_hand, printed


def warning(name: str, root: Path = REPOSITORY) -> str:
    """Return a line about a page of which some figures are older than the code that it measures, or nothing."""
    page, file = PAGES[name], DOCS / f"{name}.md"
    by_hand, printed = commits_of((root / file).read_text(encoding="utf-8"))
    later = {}
    for commit in (*by_hand, *printed):
        try:
            later[commit] = int(_git(root, "rev-list", "--count", f"{commit}..HEAD", "--", *page.code))
        except subprocess.CalledProcessError:
            return f"{file}: commit {commit} is not in this clone, its age is not known"
    oldest = max(later, key=later.__getitem__)
    if not later[oldest]:
        return ""
    then = ", then write its tables and their commit by hand" if oldest in by_hand else ""
    changes = f"{later[oldest]} commits have changed what it measures since {oldest}"
    return f"{file}: {changes}; make bench-pages PAGES={name}{then}"


def _machine() -> str:
    now = dt.datetime.now(dt.UTC).date()  # noqa: TID251
    load = os.getloadavg()[0]
    return f"{now}, {os.cpu_count()} CPUs, Python {platform.python_version()}, load {load:.1f} at the start"


def _git(root: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True).stdout.strip()


def main(argv: Sequence[str]) -> int:
    """Refresh or check pages, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pages", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"a program, or a page: {', '.join(PAGES)}")
    parser.add_argument("--arguments", default="", help="further arguments of the commands that are named")
    parser.add_argument("--check", action="store_true", help="write nothing; warn of pages that are old")
    arguments = parser.parse_args(argv)
    try:
        chosen = commands_of(arguments.names)
    except ValueError as unknown:
        parser.error(f"no such page or program: {unknown}")
    if arguments.arguments and not arguments.names:
        parser.error("--arguments: seen no name, want those of the pages or programs whose commands take them")
    if arguments.check:
        names = chosen if arguments.names else PAGES
        print("".join(f"warning: {line}\n" for line in map(warning, names) if line), end="")
        return 0
    for name, commands in chosen.items():
        print(f"== {name}", flush=True)
        try:
            refresh(name, commands, more=arguments.arguments)
        except RuntimeError as problem:
            print(problem, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
