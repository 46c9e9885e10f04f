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
from component_base import clock, settings
from fleet.checks import CheckVerdict
from fleet.finding_kinds import Category
from fleet.reading import Reader
from koordctl.check import installed, pilot, reading
from koordctl.check.results import answer, exit_code
from koordctl.cli import command, flags
from koordctl.cli.answer import FINE, Answer
from koordctl.cli.command import ProgressLine

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


def _listed(text: str, choices: Iterable[str]) -> list[str]:
    choices = tuple(choices)
    words = settings.listed(text)
    if wrong := [word for word in words if word not in choices]:
        raise BadParameter(f"{wrong[0]}: want some of {','.join(choices)}")
    return words


PARAMETERS: Final = (
    *flags.READING,
    flags.NAMESPACE,
    Option(["--pilot"], type=Choice(pilot.STAGES), help="check as well whether this stage of a pilot is over"),
    Option(["--pre"], is_flag=True, help="check the cluster before an installation"),
    Option(
        ["--wait"], type=duration, default="0", metavar="TIME", help="repeat while a check fails, at most so long (2m)"
    ),
    Option(["--fail-on"], type=Choice(("warning", "error")), default="error", help="exit with 1 from this on"),
    Option(
        ["--require"],
        type=lambda text: tuple(installed.PARTS[part] for part in _listed(text, installed.PARTS)),
        default="",
        show_default=False,
        metavar="PARTS",
        help="parts that must be installed: agent,manager,scheduler (default: any)",
    ),
    Option(
        ["--skip"],
        type=lambda text: tuple(_listed(text, Category)),
        default="",
        show_default=False,
        metavar="CATEGORIES",
        help=f"categories to leave out, of {','.join(Category)}",
    ),
)


@command.reads()
async def run(reader: Reader, options: Namespace) -> Answer:
    """Check, and return the answer."""
    with ProgressLine(sys.stderr) as progress:
        return await check(reader.api, options, clock.utc_now, asyncio.sleep, progress.show)


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
            if (remaining := deadline - monotonic()) <= 0:
                raise
            waits_for = "the API server"
        else:
            if exit_code(results, options.fail_on) == FINE or (remaining := deadline - monotonic()) <= 0:
                break
            waits_for = ", ".join(result.kind.code for result in results if result.is_bad(options.fail_on))
        report(f"waiting for {waits_for}: {remaining:.0f} s left")
        await sleep(min(_PAUSE_SECONDS, remaining))
    return answer(results, options.namespace, options.fail_on)


async def _once(api: session.Session, options: Namespace, now: dt.datetime, sleep: Sleep) -> list[CheckVerdict]:
    if options.pre:
        results = await installed.pre_install_results(Reader(api, now), options.namespace)
    else:
        candidates = () if Category.RIGHTS in options.skip else reading.VIEWER
        inputs = await reading.read(api, now, options.namespace, sleep, candidates)
        rights_missing = [unread for unread in inputs.snapshot.unread if unread.is_right]
        if rights_missing and inputs.snapshot.is_empty:
            raise command.NotRead("\n".join(command.notes(rights_missing)))
        results = list(installed.results(inputs, options.require, reading.dropped(inputs.served)))
        if options.pilot:
            results += await pilot.results(Reader(api, now), options.pilot, inputs.snapshot.nodes or ())
    return [result for result in results if result.kind.category not in options.skip]
