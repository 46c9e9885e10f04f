"""`koordctl console`: serve the pages to the browser of the caller, with the caller's own rights, until Ctrl-C."""

from __future__ import annotations

import asyncio
import secrets
import sys
import webbrowser
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from api_types import names
from apiserver_client import credentials, errors
from component_base import listening
from koordctl.cli import answer, output

if TYPE_CHECKING:
    from apiserver_client.connection import Connection

_EXTRA = "koordctl console needs more packages: pip install 'koord-suite[koordctl,console]'"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the flags of the command."""
    add = parser.add_argument
    add("--kubeconfig", metavar="FILE", help="kubeconfig file (default: as kubectl)")
    add("--context", metavar="NAME", help="context of the kubeconfig")
    add("-n", "--namespace", default=names.NAMESPACE, help=f"namespace of the suite (default: {names.NAMESPACE})")
    add("--request-timeout", type=float, default=60.0, metavar="SECONDS", help="limit of one request (default: 60)")
    add("--port", type=int, default=0, help="port on 127.0.0.1 (default: any free one)")
    add("--no-browser", action="store_true", help="print the address only")
    add(
        "--prometheus", metavar="URL", default="", help="Prometheus with the metrics of the suite, for a day of history"
    )


def run(options: Namespace) -> int:
    """Serve until Ctrl-C; return the exit code."""
    try:
        to = credentials.find(options.kubeconfig, options.context)
        return _serve(options, to)
    except ModuleNotFoundError as error:
        return _fail(f"{_EXTRA} ({error})", answer.WRONG_USAGE)
    except (errors.ApiServerError, listening.CannotListen) as error:
        return _fail(str(error), answer.NOT_READ)
    except KeyboardInterrupt:
        return answer.FINE


def _fail(text: str, code: int) -> int:
    sys.stderr.writelines(f"{output.printable(line, 2_000)}\n" for line in text.splitlines())
    return code


def _serve(options: Namespace, to: Connection) -> int:
    from console.cluster import records  # noqa: PLC0415  # packages of the extra `console`
    from console.cluster.poller import Poller  # noqa: PLC0415
    from console.history.prometheus import Prometheus  # noqa: PLC0415
    from console.web import server  # noqa: PLC0415
    from console.web.app import PagesApp  # noqa: PLC0415
    from fleet.port_forward import Caller  # noqa: PLC0415

    opened = server.listen(options.port)
    token = secrets.token_urlsafe(32)
    caller = Caller(options.kubeconfig or "", options.context or "")
    poller = Poller(to, options.namespace, request_timeout_seconds=options.request_timeout)
    pages = PagesApp(
        poller,
        lambda api, pod: records.read(api, options.namespace, caller, pod),
        Prometheus(options.prometheus) if options.prometheus else None,
    )
    url = f"http://127.0.0.1:{opened.getsockname()[1]}/?token={token}"
    sys.stdout.write(f"{url}\n")
    sys.stdout.flush()
    sys.stderr.write("The address is valid once, for one browser. Ctrl-C ends the console.\n")
    poller.start()
    try:
        if not options.no_browser:
            webbrowser.open(url)
        running = server.server(pages.app(token))
        asyncio.run(running.serve(sockets=[opened]))
    finally:
        poller.stop()
    return answer.FINE
