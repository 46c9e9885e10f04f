"""Which Kubernetes event calls what: the only file that knows kopf.

Only `on.event` handlers, which keep no state on objects: no finalizers, no annotations, no peering. A handler renews
the picture and names the node concerned; nothing is decided here and nothing is awaited but the configuration.
"""

from __future__ import annotations

import datetime as dt
import itertools
import logging
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final

import kopf
import msgspec

from api_types import names
from apiserver_client import backoff, connection, errors
from manager.cache.store import ClusterStore, Store
from manager.settings import ManagerSettings
from manager.slo_config import controller as slo_config

log = logging.getLogger(__name__)

_TOKEN_LIFE: Final = dt.timedelta(minutes=10)
"""After this long kopf logs in again: the kubelet replaces a token long before it expires."""


Handlers = kopf.OperatorRegistry


class UnsupportedCredentials(Exception):
    """The credentials are of a kind that kopf cannot be given."""


def connection_info(to: connection.Connection, now: dt.datetime) -> kopf.ConnectionInfo:
    """Our connection in kopf's terms, with the token as of now. Raises UnsupportedCredentials, errors.NoCredentials."""
    if to.exec_command is not None or to.tls_server_name is not None:
        what = "a credential program" if to.exec_command is not None else "tls-server-name"
        raise UnsupportedCredentials(
            f"{to.origin}: the manager cannot use {what}; give a kubeconfig with a token or a client certificate"
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
        expiration=now + _TOKEN_LIFE if to.token_path is not None else None,
    )


def registry(
    to: connection.Connection,
    settings: ManagerSettings,
    *,
    picture: ClusterStore,
    config: slo_config.ConfigController,
    mark: Callable[[str], None],
    seen: Callable[[str], None],
    clock: Callable[[], dt.datetime],
) -> kopf.OperatorRegistry:
    """Every handler there is. `mark` is told the name of each node that an event concerns, `seen` its resource."""
    handlers = kopf.OperatorRegistry()

    @kopf.on.login(registry=handlers)
    async def log_in(**_: Any) -> kopf.ConnectionInfo:
        return connection_info(to, clock())

    @kopf.on.event("", "v1", "nodes", registry=handlers)
    async def node(event: kopf.RawEvent, **_: Any) -> None:
        seen("nodes")
        _renew(picture.nodes, event, mark)

    @kopf.on.event(names.GROUP, names.VERSION, names.NODE_METRIC_PLURAL, registry=handlers)
    async def node_metric(event: kopf.RawEvent, **_: Any) -> None:
        seen("nodemetrics")
        _renew(picture.node_metrics, event, mark)

    @kopf.on.event("", "v1", "configmaps", registry=handlers)
    async def config_map(event: kopf.RawEvent, **_: Any) -> None:
        seen("configmaps")
        found = msgspec.convert(event["object"], type=slo_config.ConfigMap)
        if found.metadata.name == settings.config_map and found.metadata.namespace == settings.namespace:
            await _apply(config, None if event["type"] == "DELETED" else found)

    return handlers


def _renew(objects: Store[Any], event: Mapping[str, Any], mark: Callable[[str], None]) -> None:
    wire = event["object"]
    name, uid = wire["metadata"]["name"], wire["metadata"].get("uid")
    if event["type"] == "DELETED":
        objects.forget(name, uid)
    else:
        try:
            objects.see(wire)
        except msgspec.ValidationError as error:
            log.warning("%s %s cannot be read: %s", wire.get("kind", "object"), name, error)
            return
    mark(name)


async def _apply(config: slo_config.ConfigController, seen: slo_config.ConfigMap | None) -> None:
    try:
        await config.apply(seen)
    except errors.ApiServerError as error:
        log.warning("cannot follow the configuration: %s", error)


def operator_settings(settings: ManagerSettings) -> kopf.OperatorSettings:
    """Time-outs on everything: a peer that died without a word is found in a minute."""
    chosen = kopf.OperatorSettings()
    chosen.posting.enabled = False
    chosen.peering.standalone = True
    chosen.watching.server_timeout = 300  # seconds after which the apiserver ends a watch, so that it moves on
    chosen.watching.client_timeout = 330
    chosen.watching.connect_timeout = 10
    chosen.watching.inactivity_timeout = 90  # bookmarks come every 60 to 62 s
    chosen.watching.chunk_size = 100  # a page of NodeMetrics is 8 MiB once it is decoded
    chosen.watching.field_selectors["", "v1", "configmaps"] = f"metadata.name={settings.config_map}"
    chosen.queueing.idle_timeout = 0.05  # a worker keeps its last object until it goes, and has no use for it
    chosen.queueing.exit_timeout = 0.5
    chosen.networking.error_backoffs = _Patience()
    chosen.networking.request_timeout = 60
    chosen.networking.connect_timeout = 10
    chosen.process.ultimate_exiting_timeout = 15  # seconds to SIGKILL: sometimes its end hangs in a login of its own
    chosen.persistence.diffbase_storage = _NothingToCompare()
    return chosen


class _NothingToCompare(kopf.DiffBaseStorage):
    """kopf copies each object to find out what changed: 1 ms for a NodeMetric, and our handlers do not ask."""

    def build(self, *, body: kopf.Body, extra_fields: Iterable[Any] | None = None) -> kopf.BodyEssence:  # noqa: ARG002
        return kopf.BodyEssence()

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:  # noqa: ARG002
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """Only handlers of changes store, and there are none."""


class _Patience:
    """Pauses between kopf's attempts, without end: while we lead, an apiserver that says 429 or 500 is waited for."""

    def __iter__(self) -> Iterator[float]:
        return (backoff.DEFAULT.seconds(attempt, random.random) for attempt in itertools.count())


class CannotFollow(Exception):
    """What kopf does not survive and a new process does; says what happened."""


async def follow(handlers: Handlers, settings: ManagerSettings, *, identity: str) -> None:
    """Follow the cluster until cancelled, or until SIGTERM or SIGINT.

    kopf takes over both signals, and ends every task of the loop that began after this was called. It is not started a
    second time in one process: what it leaves behind kills the process 15 s after its end. Raises CannotFollow;
    whatever else kopf raises is not foreseen.
    """
    try:
        await kopf.operator(
            registry=handlers,
            settings=operator_settings(settings),
            identity=identity,  # type: ignore[arg-type]  # a NewType of str that kopf keeps to itself
            standalone=True,
            namespaces=[settings.namespace],
        )
    except Exception as failure:
        match getattr(failure, "status", None):  # kopf keeps the class to itself
            case HTTPStatus.NOT_FOUND:  # the other kinds are built in
                name = f"{names.NODE_METRIC_PLURAL}.{names.GROUP}"
                text = f"the apiserver no longer serves {name}: install its CRD again (the chart does, crds.install)"
                raise CannotFollow(text) from failure
            case HTTPStatus.GONE:
                text = "a list took longer than the apiserver remembers: 410 between two pages"
                raise CannotFollow(text) from failure  # whoever leads next lists anew
            case _:
                raise
