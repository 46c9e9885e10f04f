"""Command `koordctl gain`."""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from typing import Final

from click import BadParameter, Option

from component_base import clock
from fleet.reading import Reader
from koordctl.cli import answer, command, flags
from koordctl.cli.answer import Answer
from koordctl.gain import gains, now, page
from koordctl.gain.gains import Gain

_UNITS = {"m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_LONGEST_DAYS = 366


def since(text: str) -> float:
    """Return the seconds of a time such as 12h or 7d."""
    match = re.fullmatch(r"(\d{1,4})([mhdw])", text)
    seconds = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if not 0 < seconds <= _LONGEST_DAYS * 86_400:
        raise BadParameter(f"seen {text!r}, want a time such as 12h, 7d or 4w, at most {_LONGEST_DAYS}d")
    return seconds


PARAMETERS: Final = (
    *flags.CONNECTION,
    *flags.output((*answer.FORMATS, "html")),
    Option(
        ["--prometheus"], metavar="URL", help="Prometheus that scrapes the suite; without it only the present is shown"
    ),
    Option(["--since"], type=since, default="7d", metavar="TIME", help="time before now, such as 12h, 7d or 4w"),
    flags.selector("--selector"),
    *flags.PROMETHEUS,
)


def run(options: Namespace) -> int:
    """Run the command; return the exit code."""
    if options.prometheus:
        return _from_prometheus(options)

    async def read(reader: Reader) -> Answer:
        gain = await now.read(reader)
        if gain is None:
            raise command.NotRead("\n".join(command.notes(reader.unread)))
        return _answer(gain, options)

    return command.run(options, read)


def _answer(gain: Gain, options: Namespace) -> Answer:
    answered = gains.answer(gain)
    if options.output != "html":
        return answered
    text = page.text(gain, f"{clock.utc_now():%Y-%m-%d %H:%M} UTC")
    return Answer(answered.data, head=text.splitlines(), notes=answered.notes, exit_code=answered.exit_code)


def _from_prometheus(options: Namespace) -> int:
    try:
        from koordctl.backtest import prometheus as client  # noqa: PLC0415  # numpy, which the manager's image lacks
        from koordctl.gain import history  # noqa: PLC0415
    except ModuleNotFoundError as error:
        text = f"koordctl gain --prometheus is not in this image: it needs {error.name}; use the image koordctl"
        return command.fail(text, answer.NOT_READ)
    server = client.Server(options.prometheus, options.token_file, options.ca_file, options.timeout)
    period = history.time_range(clock.utc_now().timestamp(), options.since)
    try:
        prometheus = client.Prometheus(server)
        try:
            gain = history.read(prometheus, period, server.shown, options.selector)
        finally:
            prometheus.close()
    except (client.CannotRead, client.RejectedQuery) as error:
        return command.fail(str(error), answer.NOT_READ)
    sys.stderr.writelines(f"{server.shown} warns: {text}\n" for text in sorted(prometheus.warnings))
    return command.show(options, _answer(gain, options))
