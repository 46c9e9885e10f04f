"""Call the verb of a path, with readiness, errors and metrics."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Sequence
from http import HTTPStatus

from scheduler_plugin.extender import http_server, metrics
from scheduler_plugin.extender.http_server import Response
from scheduler_plugin.extender.verbs import BadExtenderCall, Extender

log = logging.getLogger(__name__)


class Dispatcher:
    """Handler of the HTTP server."""

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
            "/preempt": extender.preempt,
            "/bind": extender.bind,
        }

    def __call__(self, method: str, path: str, body: bytes) -> Response:
        """Handle one request; never raises."""
        verb = self._verbs.get(path)
        if verb is None:
            text = (
                f"no such path {path[:100]}, want one of {' '.join(self._verbs)}; probes and metrics have another port"
            )
            return http_server.error_response(HTTPStatus.NOT_FOUND, text)
        if method != "POST":
            text = f"{path}: got method {method[:20]}, want POST, as kube-scheduler sends it"
            return http_server.error_response(HTTPStatus.METHOD_NOT_ALLOWED, text)
        began = time.perf_counter()
        response = self._respond(path, verb, body)
        seconds = time.perf_counter() - began
        return response._replace(then=functools.partial(self._follow_up, path, response.status, seconds))

    def _follow_up(self, path: str, status: HTTPStatus, seconds: float) -> None:
        self._metrics.observe(path[1:], status, seconds)
        if path in ("/filter", "/prioritize"):
            self._reserve()
        if path == "/filter":
            self._extender.prepare()
        elif path == "/prioritize":
            self._extender.seal_record()

    def _reserve(self) -> None:
        """Count the pod of the last call; an error costs that pod, not the present call of another one."""
        try:
            self._extender.reserve(self._clock(), time.monotonic())
        except Exception:
            log.exception("unexpected error, did not count the pod of the last call")

    def _respond(self, path: str, verb: Callable[[bytes, float], bytes], body: bytes) -> Response:
        if not self._synced and (waiting_for := self._unsynced()):
            text = f"not ready: waiting for the first list of {', '.join(waiting_for)}"
            return http_server.error_response(HTTPStatus.SERVICE_UNAVAILABLE, text)
        self._synced = True
        try:
            self._reserve()  # of a call whose follow-up has not run yet
            response = verb(body, self._clock())
        except BadExtenderCall as error:
            return http_server.error_response(HTTPStatus.BAD_REQUEST, str(error))
        except Exception:
            log.exception("%s: unexpected error", path)
            return http_server.error_response(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error, see the log")
        return Response(HTTPStatus.OK, response)
