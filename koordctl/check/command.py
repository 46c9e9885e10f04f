"""`koordctl check`: read, check, repeat while it may help, print, and return the exit code. Reads only."""

from __future__ import annotations

import asyncio
import datetime as dt
import re
import sys
import time
from argparse import Namespace
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from click import BadParameter, Choice, Option

from apiserver_client import errors, session
from component_base import clock
from fleet.finding_kinds import Category
from fleet.reading import Reader
from fleet.snapshot import FleetSnapshot
from koordctl.check import before, installed, reading, rights
from koordctl.check import results as of
from koordctl.check.results import Result
from koordctl.cli import command, flags
from koordctl.cli.answer import FINE, Answer
from koordctl.cli.progress import ProgressLine

Sleep = Callable[[float], Awaitable[None]]

_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600}
_PAUSE_SECONDS: Final = 3.0
_LONGEST_WAIT_SECONDS: Final = 3600.0


def duration(text: str) -> float:
    """Return the seconds of a duration such as 90s, 2m or 1h."""
    match = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?)([smh]?)", text)
    seconds = float(match[1]) * _UNITS[match[2]] if match else -1.0
    if not 0 <= seconds <= _LONGEST_WAIT_SECONDS:
        raise BadParameter(f"{text}: want a time such as 90s or 2m, at most 1h")
    return seconds


def _parts(text: str) -> tuple[str, ...]:
    return tuple(installed.PARTS[each] for each in _listed(text, installed.PARTS))


def _categories(text: str) -> tuple[str, ...]:
    return tuple(_listed(text, Category))


def _listed(text: str, known: Iterable[str]) -> list[str]:
    known = tuple(known)
    found = [each.strip() for each in text.split(",") if each.strip()]
    if wrong := [each for each in found if each not in known]:
        raise BadParameter(f"{wrong[0]}: want some of {','.join(known)}")
    return found


PARAMETERS: Final = (
    *flags.READING,
    flags.NAMESPACE,
    Option(["--pre"], is_flag=True, help="check the cluster before an installation"),
    Option(
        ["--wait"],
        type=duration,
        default="0",
        metavar="TIME",
        help="repeat while a check fails, at most so long (2m)",
    ),
    Option(["--fail-on"], type=Choice(("warning", "error")), default="error", help="exit with 1 from this on"),
    Option(
        ["--require"],
        type=_parts,
        default="",
        show_default=False,
        metavar="PARTS",
        help="parts that must be installed: agent,manager,scheduler (default: any)",
    ),
    Option(
        ["--skip"],
        type=_categories,
        default="",
        show_default=False,
        metavar="CATEGORIES",
        help=f"categories to leave out, of {','.join(Category)}",
    ),
)


def run(options: Namespace) -> int:
    """Run the checks; return the exit code."""

    async def read(reader: Reader) -> Answer:
        with ProgressLine(sys.stderr) as progress:
            return await check(reader.api, options, clock.utc_now, asyncio.sleep, progress.show)

    return command.run(options, read)


async def check(
    api: session.Session,
    options: Namespace,
    now: Callable[[], dt.datetime],
    sleep: Sleep,
    report: Callable[[str], None] = lambda _text: None,
    *,
    monotonic: Callable[[], float] = time.monotonic,
) -> Answer:
    """Check until nothing fails or the time is over; `report` is called with what it waits for.

    Raises NotRead, and errors.ApiServerError.
    """
    deadline = monotonic() + options.wait
    while True:
        try:
            results = await _once(api, options, now(), sleep)
        except (errors.Unreachable, errors.ServerError, errors.Throttled):
            if (left := deadline - monotonic()) <= 0:
                raise
            waits_for = "the API server"
        else:
            if of.exit_code(results, options.fail_on) == FINE or (left := deadline - monotonic()) <= 0:
                break
            waits_for = ", ".join(each.kind.code for each in results if each.is_bad(options.fail_on))
        report(f"waiting for {waits_for}: {left:.0f} s left")
        await sleep(min(_PAUSE_SECONDS, left))
    return of.answer(results, options.namespace, options.fail_on)


async def _once(api: session.Session, options: Namespace, now: dt.datetime, sleep: Sleep) -> list[Result]:
    if options.pre:
        found_before = await reading.read_before(api, now, options.namespace)
        results = list(before.results(found_before, options.namespace, reading.dropped(found_before.served)))
    else:
        wanted = () if Category.RIGHTS in options.skip else rights.VIEWER
        found = await reading.read(api, now, options.namespace, sleep, wanted)
        _refuse_nothing(found.snapshot)
        results = list(installed.results(found, options.require, reading.dropped(found.served)))
    return [each for each in results if each.kind.category not in options.skip]


def _refuse_nothing(found: FleetSnapshot) -> None:
    """Raise NotRead where the caller may read nothing of the suite."""
    assert found.installation is not None
    is_nothing = found.nodes is None and not found.installation.workloads and found.installation.outcome is None
    if is_nothing and any(each.is_right for each in found.unread):
        raise command.NotRead("\n".join(command.notes(each for each in found.unread if each.is_right)))
