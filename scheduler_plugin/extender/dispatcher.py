"""From a path to a verb: readiness, errors and measurement around the extender."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Sequence
from http import HTTPStatus

from scheduler_plugin.extender import http_server, metrics
from scheduler_plugin.extender.http_server import Answer
from scheduler_plugin.extender.verbs import BadRequest, Extender

log = logging.getLogger(__name__)


class Dispatch:
    """The handler of the server."""

    def __init__(
        self,
        extender: Extender,
        request_metrics: metrics.RequestMetrics,
        unsynced: Callable[[], Sequence[str]],
        clock: Callable[[], float],
    ) -> None:
        self._extender = extender
        self._metrics = request_metrics
        self._unsynced = unsynced
        self._clock = clock
        self._synced = False
        self._verbs: dict[str, Callable[[bytes, float], bytes]] = {
            "/filter": extender.filter,
            "/prioritize": extender.prioritize,
            "/bind": extender.bind,
        }

    def __call__(self, method: str, path: str, body: bytes) -> Answer:
        """Answer one request; never raises."""
        verb = self._verbs.get(path)
        if verb is None:
            text = (
                f"there is no {path[:100]}, there are {' '.join(self._verbs)}; probes and metrics have their own port"
            )
            return http_server.error_answer(HTTPStatus.NOT_FOUND, text)
        if method != "POST":
            text = f"{path} takes POST, as kube-scheduler sends it, not {method[:20]}"
            return http_server.error_answer(HTTPStatus.METHOD_NOT_ALLOWED, text)
        began = time.perf_counter()
        answer = self._answer(path, verb, body)
        seconds = time.perf_counter() - began
        return answer._replace(then=functools.partial(self._follow_up, path, answer.status, seconds))

    def _follow_up(self, path: str, status: HTTPStatus, seconds: float) -> None:
        """What the scheduler need not wait for."""
        self._metrics.observe(path[1:], status, seconds)
        if path == "/filter":
            self._extender.prepare()
        elif path == "/prioritize":
            self._extender.settle()

    def _answer(self, path: str, verb: Callable[[bytes, float], bytes], body: bytes) -> Answer:
        if not self._synced and (waiting_for := self._unsynced()):
            text = f"not ready: waiting for the first list of {', '.join(waiting_for)}"
            return http_server.error_answer(HTTPStatus.SERVICE_UNAVAILABLE, text)
        self._synced = True
        try:
            answer = verb(body, self._clock())
        except BadRequest as error:
            return http_server.error_answer(HTTPStatus.BAD_REQUEST, str(error))
        except Exception:
            log.exception("%s failed", path)
            return http_server.error_answer(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error, see the log")
        return Answer(HTTPStatus.OK, answer)
