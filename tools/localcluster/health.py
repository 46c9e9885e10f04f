"""Readiness checks over HTTP, and waiting for them with a time limit."""

from __future__ import annotations

import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path

from tools.localcluster import progress
from tools.localcluster.errors import ClusterProblem
from tools.localcluster.host import processes


def responds(url: str, *, authority: Path | None = None) -> bool:
    """Return whether a GET returns 200.

    Over https the certificate is checked against `authority` where one is given; components with a self-signed
    certificate are checked on loopback only.
    """
    trust = ssl.create_default_context(cafile=str(authority) if authority else None)
    if authority is None:
        trust.check_hostname = False
        trust.verify_mode = ssl.CERT_NONE
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trust))
    try:
        with direct.open(url, timeout=2) as answer:
            return bool(answer.status == HTTPStatus.OK)
    except (OSError, urllib.error.URLError, http.client.HTTPException):
        return False


def wait(what: str, is_so: Callable[[], bool], timeout_seconds: float, program: str, folder: Path) -> None:
    """Wait for a program in `folder`. Raises ClusterProblem with its last errors when it ends or the time is over."""

    def is_so_unless_ended() -> bool:
        processes.require_alive(program, folder)
        return is_so()

    def give_up() -> None:
        errors = processes.last_errors(program, folder)
        raise ClusterProblem(f"{what}: not so after {timeout_seconds:.0f} s; end of the log of {program}: {errors}")

    progress.wait_until(what, is_so_unless_ended, timeout_seconds, otherwise=give_up)
