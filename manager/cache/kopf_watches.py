"""Watch of the ConfigMap, by kopf. The only module that imports kopf.

Why kopf: the manager is an operator, and kopf is the operator framework that Python users of Kubernetes know. It lists,
watches, re-lists, re-authenticates and retries; this project's own code decides and writes (decision 0012). Nodes and
NodeMetrics, whose events are too many for it, are watched elsewhere (`object_watches`, decision 0019).

kopf runs as its documentation on embedding advises: in a thread of its own with its own event loop, a registry of its
own, a ready flag and a stop flag. Handlers are `on.event` handlers only, which keep no state on objects: no finalizers,
no annotations, no peering. A handler decodes the object, hands it over to the main loop, thread-safely, and waits for
nothing: kopf has a worker for each UID, so the deletion of an object and its successor are handled by two. The store
and the work queues belong to the main loop.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import dataclasses
import datetime as dt
import functools
import itertools
import logging
import math
import random
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import kopf
import msgspec

from apiserver_client import backoff, connection, errors, exec_program, resources
from manager.cache.event_sink import EventSink
from manager.settings import ManagerSettings

log = logging.getLogger(__name__)

_PLURAL: Final = resources.CONFIG_MAPS.plural
_LOGIN_LIFE: Final = dt.timedelta(minutes=10)
"""kopf logs in again after this time, and reads all files: the kubelet replaces a token long before it expires.

This holds for a program that prints no time too: without one, its next credential may be equal to a refused one, and
then kopf ends."""
_CALM_SECONDS: Final = 60.0
"""A login so long after the one before waits for nothing. Longer than the longest pause."""
_USABLE_SHARE: Final = 0.8
"""Share of the lifetime of a program's credential after which kopf logs in again, and its lower bound in seconds."""
_LEAST_USABLE_SECONDS: Final = 10.0
_EXIT_SECONDS: Final = 10.0
"""Longest wait for kopf's exit; its thread does not keep the process alive."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _LoadedConnection(kopf.ConnectionInfo):
    """Connection whose files were read: kopf would read them once more, and end where they are being replaced then."""

    context: ssl.SSLContext = dataclasses.field(compare=False, repr=False)

    def as_ssl_context(self) -> ssl.SSLContext:
        """Return the context that was made at the login."""
        return self.context


class UnsupportedCredentials(Exception):
    """kopf has no setting for this kind of credentials."""


def login(to: connection.Connection, clock: Callable[[], dt.datetime]) -> Callable[..., Awaitable[kopf.ConnectionInfo]]:
    """Return a login handler. kopf calls it at once after each 401, so logins that follow one another wait."""
    last, attempt = -math.inf, 0

    async def handler(**_: Any) -> kopf.ConnectionInfo:
        nonlocal last, attempt
        attempt = attempt + 1 if time.monotonic() - last < _CALM_SECONDS else 0
        if attempt:
            await asyncio.sleep(backoff.DEFAULT.seconds(attempt - 1, random.random))
        last = time.monotonic()
        delays = iter(EndlessBackoff())
        while True:
            try:
                return await log_in(to, clock())
            except errors.NoCredentials as error:  # as while files are replaced; raised, it would end kopf
                log.warning("%s; trying again", error)
                await asyncio.sleep(next(delays))

    return handler


async def log_in(to: connection.Connection, now: dt.datetime) -> kopf.ConnectionInfo:
    """Return the connection in kopf's terms, with what its credential program prints now.

    Raises UnsupportedCredentials, and errors.NoCredentials also where kopf could not load the certificates.
    """
    info = connection_info(to, now)
    if to.exec_command is not None:
        info = _with_printed(info, await exec_program.run(to.exec_command), now)
    try:
        context = info.as_ssl_context()
    except (OSError, ValueError) as error:
        raise errors.NoCredentials(f"{to.origin}: cannot load the certificates or the key: {error}") from error
    return _LoadedConnection(**vars(info), context=context)


def _with_printed(info: kopf.ConnectionInfo, printed: exec_program.Printed, now: dt.datetime) -> kopf.ConnectionInfo:
    given, lifetime = printed.credential, printed.lifetime_seconds
    if given.certificate is not None:  # kopf reads each part from a file of its own, and both files may have both
        info = dataclasses.replace(
            info,
            certificate_path=None,
            certificate_data=given.certificate,
            private_key_path=None,
            private_key_data=given.certificate,
        )
    if lifetime is not None:
        usable = dt.timedelta(seconds=max(lifetime * _USABLE_SHARE, _LEAST_USABLE_SECONDS))
        info = dataclasses.replace(info, expiration=now + usable)
    return dataclasses.replace(info, token=given.header.removeprefix("Bearer ") if given.header else None)


def connection_info(to: connection.Connection, now: dt.datetime) -> kopf.ConnectionInfo:
    """Return the connection in kopf's terms, with the token as of now; a credential program is not run.

    Raises UnsupportedCredentials and errors.NoCredentials.
    """
    if to.tls_server_name is not None:
        raise UnsupportedCredentials(
            f"{to.origin}: the manager cannot use tls-server-name; give a kubeconfig whose server has a name or an "
            "address that is in the certificate of the apiserver"
        )
    return kopf.ConnectionInfo(
        server=to.server,
        ca_path=to.ca_path,
        ca_data=to.ca_data,
        insecure=to.insecure,
        username=to.username,
        password=to.password,
        token=to.read_token(),
        certificate_path=to.client_certificate_path,
        certificate_data=to.client_certificate_data,
        private_key_path=to.client_key_path,
        private_key_data=to.client_key_data,
        default_namespace=to.namespace,
        proxy_url=to.proxy_url,
        expiration=now + _LOGIN_LIFE,
    )


def registry(
    to: connection.Connection,
    settings: ManagerSettings,
    sink: EventSink,
    *,
    loop: asyncio.AbstractEventLoop,
    seen: Callable[[str], None],
    clock: Callable[[], dt.datetime],
) -> kopf.OperatorRegistry:
    """Register all handlers. `loop` is the main loop; `seen` gets the resource of each event, in kopf's thread."""
    handlers = kopf.OperatorRegistry()

    def hand_over(event: kopf.RawEvent) -> None:
        seen(_PLURAL)
        wire: Mapping[str, Any] = event["object"]
        metadata = wire["metadata"]
        if event["type"] == "DELETED":
            loop.call_soon_threadsafe(sink.deleted, _PLURAL, metadata["name"], metadata.get("uid"))
            return
        try:
            decoded = sink.decode(_PLURAL, wire)
        except msgspec.ValidationError as error:
            log.warning("cannot decode ConfigMap %s: %s", metadata["name"], error)
        else:
            listed = event["type"] is None  # kopf's mark of an object of a list
            loop.call_soon_threadsafe(functools.partial(sink.updated, _PLURAL, decoded, listed=listed))

    kopf.on.login(registry=handlers)(login(to, clock))

    @kopf.on.event("", "v1", _PLURAL, registry=handlers)
    async def config_map(event: kopf.RawEvent, **_: Any) -> None:
        metadata = event["object"]["metadata"]
        if (metadata.get("namespace"), metadata["name"]) == (settings.namespace, settings.config_map):
            hand_over(event)

    return handlers


def operator_settings(settings: ManagerSettings) -> kopf.OperatorSettings:
    """Return kopf's settings: nothing is posted or scanned, and every wait has a timeout.

    With timeouts a connection that was dropped without a FIN is detected within a minute.
    """
    chosen = kopf.OperatorSettings()
    chosen.posting.enabled = False
    chosen.peering.standalone = True
    chosen.scanning.disabled = True  # namespace and kinds are fixed: neither namespaces nor CRDs are watched
    chosen.watching.server_timeout = 300  # seconds after which the apiserver ends a watch, so that it moves on
    chosen.watching.client_timeout = 330
    chosen.watching.connect_timeout = 10
    chosen.watching.inactivity_timeout = 90  # bookmarks come every 60 to 62 s
    chosen.watching.field_selectors["", "v1", "configmaps"] = f"metadata.name={settings.config_map}"
    chosen.queueing.idle_timeout = 0.05  # an idle worker holds its last event in memory until it exits
    chosen.queueing.exit_timeout = 0.5
    chosen.networking.error_backoffs = EndlessBackoff()
    chosen.networking.request_timeout = 60
    chosen.networking.connect_timeout = 10
    chosen.process.ultimate_exiting_timeout = 15  # seconds to SIGKILL where kopf's own exit hangs after a failure
    chosen.persistence.diffbase_storage = NoDiffBase()
    return chosen


class NoDiffBase(kopf.DiffBaseStorage):
    """Diff-base storage that stores and compares nothing, by kopf's public interface for custom storages.

    The built-in ones copy each object to find out what changed, and `on.event` handlers do not receive the difference.
    """

    def build(self, *, body: kopf.Body, extra_fields: Iterable[Any] | None = None) -> kopf.BodyEssence:  # noqa: ARG002
        """Return an empty essence."""
        return kopf.BodyEssence()

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:  # noqa: ARG002
        """Return None: no earlier essence is stored."""
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """Do nothing: kopf stores for handlers of changes only, and none is registered."""


class EndlessBackoff:
    """Delays between kopf's attempts, without end: a leader waits for an apiserver that answers 429, 403 or 5xx."""

    def __iter__(self) -> Iterator[float]:
        return (backoff.DEFAULT.seconds(attempt, random.random) for attempt in itertools.count())


class _WithoutTraceback(logging.Handler):
    """Drop the traceback of a record before the root logger's handlers format it."""

    def emit(self, record: logging.LogRecord) -> None:
        record.exc_info = record.exc_text = None


def configure_logging() -> None:
    """Log kopf's errors, each in one line: the exception that ends kopf is raised to the leader, which logs it."""
    logger = logging.getLogger("kopf")
    logger.setLevel(logging.ERROR)
    logger.addHandler(_WithoutTraceback())


class _KopfThread:
    """kopf in a thread with an event loop of its own. It installs no signal handler there."""

    def __init__(self, handlers: kopf.OperatorRegistry, settings: ManagerSettings, identity: str) -> None:
        self.ready: concurrent.futures.Future[None] = concurrent.futures.Future()
        self.ended: concurrent.futures.Future[None] = concurrent.futures.Future()
        self.stop = threading.Event()
        self._handlers = handlers
        self._settings = settings
        self._identity = identity
        self._thread = threading.Thread(target=self._run, name="kopf", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        try:
            asyncio.run(self._operate())
        except BaseException as failure:
            self.ended.set_exception(failure)
        else:
            self.ended.set_result(None)

    async def _operate(self) -> None:
        try:
            await kopf.operator(
                registry=self._handlers,
                settings=operator_settings(self._settings),
                identity=self._identity,  # type: ignore[arg-type]  # a NewType of str that kopf does not export
                standalone=True,
                namespaces=[self._settings.namespace],  # of the ConfigMap
                ready_flag=self.ready,
                stop_flag=self.stop,
            )
        finally:
            self.stop.set()  # releases the executor thread in which kopf waits for this flag


async def follow(
    handlers: kopf.OperatorRegistry, settings: ManagerSettings, *, identity: str, on_ready: Callable[[], None]
) -> None:
    """Run kopf until cancelled. Call from the main loop; `on_ready` is called there once kopf has started.

    Raises what has ended kopf.
    """
    thread = _KopfThread(handlers, settings, identity)
    thread.start()
    ready, ended = asyncio.wrap_future(thread.ready), asyncio.wrap_future(thread.ended)
    try:
        await asyncio.wait({ready, ended}, return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            on_ready()
            await asyncio.wait({ended})
    finally:
        thread.stop.set()
        await asyncio.wait({ended}, timeout=_EXIT_SECONDS)  # the loop runs on: handlers may still hand over
        if not ended.done():
            log.warning("kopf has not stopped within %g s, its thread is left behind", _EXIT_SECONDS)
        failure = ended.exception() if ended.done() else None
    if failure is not None:
        raise failure
