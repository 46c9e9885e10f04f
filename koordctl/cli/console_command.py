"""`koordctl console`: serve the pages to the browser of the caller, with the caller's own rights, until Ctrl-C."""

from __future__ import annotations

import asyncio
import secrets
import sys
import webbrowser
from argparse import Namespace
from typing import Final

from click import BadParameter, Option

from apiserver_client import errors
from apiserver_client.connection import Connection
from component_base import listening
from koordctl.cli import answer, command, flags

_LAST_PORT: Final = 65_535
_EXTRA = "koordctl console needs more packages: pip install 'koordctl[console]'"


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > _LAST_PORT:
        raise BadParameter(f"seen {text!r}, want a port from 0 to {_LAST_PORT}; 0 is any free one")
    return int(text)


PARAMETERS: Final = (
    *flags.CONNECTION,
    flags.NAMESPACE,
    Option(["--port"], type=_port, default="0", metavar="PORT", help="port on 127.0.0.1; 0 is any free one"),
    Option(["--no-browser"], is_flag=True, help="print the address only"),
    Option(["--prometheus"], metavar="URL", help="Prometheus with the metrics of the suite, for a day of history"),
    flags.selector("--prometheus-selector"),
)


def run(options: Namespace) -> int:
    """Serve until Ctrl-C; return the exit code."""
    try:
        return _serve(options, command.connection(options))
    except ModuleNotFoundError as error:
        return command.fail(f"{_EXTRA} ({error})", answer.WRONG_USAGE)
    except (errors.ApiServerError, listening.CannotListen) as error:
        return command.fail(str(error), answer.NOT_READ)
    except KeyboardInterrupt:
        return answer.FINE


def _serve(options: Namespace, to: Connection) -> int:
    from console.cluster import reading  # noqa: PLC0415  # packages of the extra `console`
    from console.cluster.poller import Poller  # noqa: PLC0415
    from console.history.prometheus import CpuHistory  # noqa: PLC0415
    from console.web import server  # noqa: PLC0415
    from console.web.app import PagesApp  # noqa: PLC0415

    opened = server.listen(options.port)
    token = secrets.token_urlsafe(32)
    caller = command.caller(options)
    poller = Poller(to, options.namespace, request_timeout_seconds=options.request_timeout)
    pages = PagesApp(
        poller,
        lambda api, pod: reading.read_records(api, options.namespace, caller, pod),
        CpuHistory(options.prometheus, options.prometheus_selector) if options.prometheus else None,
    )
    url = f"http://127.0.0.1:{opened.getsockname()[1]}/?token={token}"
    poller.start()
    try:
        sys.stdout.write(f"{url}\n")
        sys.stdout.flush()
        sys.stderr.write("The address is valid once, for one browser. Ctrl-C ends the console.\n")
        if not options.no_browser:
            webbrowser.open(url)
        running = server.server(pages.app(token))
        asyncio.run(running.serve(sockets=[opened]))
    finally:
        poller.stop()
    return answer.FINE
