"""Serve the webhook with kopf: the rules for Mid pods, for each new pod that the API server sends.

kopf's own management of webhook configurations stays off: the chart writes the configuration, so that the process may
change one object of that kind and create none.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import functools
import json
import logging
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import kopf
from aiohttp import web

from api_types.mid_pods import admission, template
from apiserver_client import connection
from manager.cache import kopf_watches
from manager.cli.admission import certificate_store
from manager.cli.admission.settings import AdmissionSettings

log = logging.getLogger(__name__)

_Review = Callable[..., Awaitable[Any]]
HANDLER: Final = "mid-limits"
"""Id of the handler, by which kopf finds it: the path in the webhook configuration of the chart."""
_FAILED: Final = "this koord-mid pod gets no limits: the webhook failed; its log has the error"
_EXAMPLE: Final = {
    "request": {
        "uid": "",
        "operation": "CREATE",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "userInfo": {},
        "object": {"metadata": {}, "spec": {}},
    }
}
_LARGEST_REVIEW_BYTES: Final = 2**24
"""More than the API server sends: it stores 1.5 MiB of a pod, whose texts take six times as much in JSON at most."""
_HEAD_BYTES: Final = 4096
_UID: Final = re.compile(rb'"request"\s*:\s*\{\s*"uid"\s*:\s*"([0-9a-f-]{36})"')
"""The UID of a review, which the API server sends first."""
_ASK_AGAIN_SECONDS: Final = 0.05
_FILE_CHECK_SECONDS: Final = 86_400.0  # the files do not change: see CertificateStore


def registry(
    to: connection.Connection, settings: AdmissionSettings, clock: Callable[[], dt.datetime]
) -> kopf.OperatorRegistry:
    """Register the handler of new pods."""
    handlers = kopf.OperatorRegistry()

    kopf.on.login(registry=handlers)(kopf_watches.login(to, clock))

    @kopf.on.mutate("", "v1", "pods", id=HANDLER, operations=["CREATE"], registry=handlers)
    async def limit(body: kopf.Body, patch: kopf.Patch, warnings: list[str], **_: Any) -> None:
        try:
            operations, advice = limits(dict(body), settings.scheduler_name, native_limits=settings.native_limits)
        except Exception:  # kopf would refuse the pod
            log.exception("the rules for Mid pods failed for a new pod; it gets no limits")
            operations, advice = [], [_FAILED]
        # kopf would copy and compare the whole pod to find these, which takes longer than all the rest.
        patch.as_json_patch = lambda *_: operations  # type: ignore[method-assign,assignment]
        warnings.extend(advice)

    return handlers


def limits(
    pod: Mapping[str, Any], scheduler_name: str, *, native_limits: bool = True
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the operations of a JSON patch that applies the rules to a pod, and what its author is warned of."""
    made = admission.admitted(pod, {}, (), scheduler_name, native_limits=native_limits)
    if made.refusal:
        return [], [f"this koord-mid pod gets no limits: {made.refusal}"]
    if not template.is_mid(pod):
        return [], []
    return list(_operations(pod["spec"], made.pod["spec"])), [
        f"koord-mid: {text}" for text in template.advice(made.pod)
    ]


def _operations(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what differs between two specs; the rules change resources of containers and the scheduler's name."""
    for field in template.CONTAINER_LISTS:
        for index, (given, made) in enumerate(zip(before.get(field) or (), after.get(field) or (), strict=True)):
            if made.get("resources") != given.get("resources"):
                yield {"op": "add", "path": f"/spec/{field}/{index}/resources", "value": made["resources"]}
    if after.get("schedulerName") != before.get("schedulerName"):
        yield {"op": "add", "path": "/spec/schedulerName", "value": after["schedulerName"]}


class CreationsServer(kopf.WebhookServer):
    """A server that listens from when it can answer, and refuses reviews of anything but a creation.

    kopf answers every review with 404 until it has read the resources of the API, and the API server lets a pod pass
    then. It remembers the object of every review of another operation for good, and any pod of the cluster may reach
    the port.
    """

    def __init__(self, *, on_listening: Callable[[], None], **options: Any) -> None:
        super().__init__(**options)
        self._on_listening = on_listening

    async def __call__(self, fn: _Review) -> AsyncIterator[Any]:
        """Serve reviews of creations by `fn`; call `on_listening` once the port is open."""
        await _answered(fn)
        async for config in super().__call__(functools.partial(creations_only, fn)):
            self._on_listening()
            yield config

    async def _serve(self, fn: _Review, request: web.Request) -> web.Response:  # type: ignore[override]
        """Answer a request: one that is too large or too deep to be parsed with a refusal, any other one as kopf does.

        kopf's answers to these, 413 and 500, would let the pod pass without limits.
        """
        seen, want = request.content_length or 0, request.client_max_size
        if want < seen <= _LARGEST_REVIEW_BYTES:
            head = await request.content.read(_HEAD_BYTES)
            async for _ in request.content.iter_any():
                pass
            return _refused(
                head, 413, f"of {seen} bytes cannot get its limits, want at most {want} bytes: shorten its texts"
            )
        try:
            return await super()._serve(fn, request)
        except (RecursionError, ValueError) as error:
            log.warning("cannot read a review: %s", error)
            head = (await request.read())[:_HEAD_BYTES]
            return _refused(head, 400, f"that cannot be read cannot get its limits: {error}")


def _refused(head: bytes, code: int, why: str) -> web.Response:
    """Return the refusal of the pod of a review that begins with `head`."""
    uid = _UID.search(head)
    if uid is None:
        return web.Response(status=code)
    status = {"code": code, "message": f"a koord-mid pod {why}"}
    return web.json_response({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": uid[1].decode(), "allowed": False, "status": status},
    })  # fmt: skip


async def _answered(fn: _Review) -> None:
    """Wait until `fn` answers a review."""
    while True:
        try:
            await fn(_EXAMPLE, webhook=HANDLER)
        except Exception as error:  # kopf publishes no class for it
            log.debug("kopf cannot answer yet: %s", error)
            await asyncio.sleep(_ASK_AGAIN_SECONDS)
        else:
            return


async def creations_only(fn: _Review, review: Any, **more: Any) -> Any:
    """Answer a review of a creation by `fn`. Raises JSONDecodeError, which kopf answers with 400, for any other one."""
    request = review.get("request") if isinstance(review, dict) else None
    if not isinstance(request, dict) or request.get("operation") != "CREATE":
        raise json.JSONDecodeError("want a review of the creation of a pod", "", 0)
    return await fn(review, **more)


async def serve(
    to: connection.Connection,
    settings: AdmissionSettings,
    clock: Callable[[], dt.datetime],
    *,
    context: ssl.SSLContext,
    on_listening: Callable[[], None],
    stop: asyncio.Event,
) -> None:
    """Serve until `stop` is set; the files of the certificate exist, and `context` has its newest state.

    `on_listening` is called once pods are answered. Until then kopf itself ends on SIGTERM and SIGINT: it replaces the
    handlers of both.
    """
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)  # a line for each new Mid pod otherwise
    folder = Path(settings.certificate_folder)
    chosen = kopf.OperatorSettings()
    chosen.posting.enabled = False
    chosen.peering.standalone = True
    chosen.scanning.disabled = True
    chosen.networking.error_backoffs = kopf_watches.EndlessBackoff()
    chosen.admission.server = CreationsServer(
        on_listening=on_listening,
        port=settings.port,
        host=settings.host,
        context=context,
        certfile=folder / certificate_store.CERTIFICATE_FILE,
        pkeyfile=folder / certificate_store.KEY_FILE,
        file_check_interval=_FILE_CHECK_SECONDS,
    )
    await kopf.operator(
        registry=registry(to, settings, clock),
        settings=chosen,
        standalone=True,
        clusterwide=True,
        stop_flag=stop,
    )
