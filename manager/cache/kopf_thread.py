"""kopf, embedded as its documentation shows: in a thread with an event loop of its own, which ends by a flag.

kopf keeps no state on objects here: no finalizers, annotations, Events or peering (decision 0012). Only this module,
which has the handler of the ConfigMap, and `manager.cli.admission.webhook` import it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import dataclasses
import datetime as dt
import itertools
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

import kopf
import msgspec

from apiserver_client import authentication, connection, errors, resources
from component_base import clock
from manager.cache.store import ConfigMapStore
from manager.settings import ManagerSettings

log = logging.getLogger(__name__)

RETRY_SECONDS: Final = 2.0
"""Pause between two attempts of a request, and between two logins, of which kopf makes one after each 401."""
_PLURAL: Final = resources.CONFIG_MAPS.plural
_EXIT_SECONDS: Final = 10.0
_LOGIN_LIFE: Final = dt.timedelta(minutes=10)
"""Then kopf logs in again, which reads the files of tokens and certificates again."""


def connection_info(to: connection.Connection) -> kopf.ConnectionInfo:
    """Return the connection in kopf's terms, without the credential of a program. Raises errors.NoCredentials."""
    if to.tls_server_name is not None:
        raise errors.NoCredentials(
            f"{to.origin}: the manager cannot use tls-server-name; give a kubeconfig whose server has a name or an "
            "address that is in the certificate of the apiserver"
        )
    return kopf.ConnectionInfo(
        server=to.server, ca_path=to.ca_path, ca_data=to.ca_data, insecure=to.insecure, username=to.username,
        password=to.password, token=to.read_token(), certificate_path=to.client_certificate_path,
        certificate_data=to.client_certificate_data, private_key_path=to.client_key_path,
        private_key_data=to.client_key_data, default_namespace=to.namespace, proxy_url=to.proxy_url,
        expiration=clock.utc_now() + _LOGIN_LIFE,
    )  # fmt: skip


def new_registry(to: connection.Connection) -> kopf.OperatorRegistry:
    """Return a registry with the login, which uses the credentials of a connection as they are then."""
    registry = kopf.OperatorRegistry()
    pauses = itertools.chain([0.0], itertools.repeat(RETRY_SECONDS))

    @kopf.on.login(registry=registry)
    async def log_in(**_: Any) -> kopf.ConnectionInfo:
        await asyncio.sleep(next(pauses))
        try:
            info = connection_info(to)
            if to.exec_command is not None:
                credential = (await authentication.run_program(to.exec_command)).credential
                info = dataclasses.replace(info, token=(credential.header or "").removeprefix("Bearer ") or None)
                if (pem := credential.certificate) is not None:
                    info = dataclasses.replace(
                        info, certificate_path=None, certificate_data=pem, private_key_path=None, private_key_data=pem
                    )
            info.as_ssl_context()  # kopf does it again, and would end while one of two files is replaced
        except (errors.NoCredentials, OSError, ValueError) as error:
            raise kopf.TemporaryError(f"{to.origin}: {error}", delay=RETRY_SECONDS) from None
        return info

    return registry


def new_settings() -> kopf.OperatorSettings:
    """Return settings with which kopf posts, peers and scans nothing, and waits without an end for the apiserver."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.scanning.disabled = True
    settings.networking.error_backoffs = itertools.repeat(RETRY_SECONDS)
    settings.networking.request_timeout = 60
    settings.networking.connect_timeout = settings.watching.connect_timeout = 10
    return settings


class KopfThread(threading.Thread):
    """kopf with the handlers of a registry, until `end`; it ends by itself only where kopf fails."""

    def __init__(self, registry: kopf.OperatorRegistry, settings: kopf.OperatorSettings, **operator: Any) -> None:
        super().__init__(name="kopf", daemon=True)
        self.ready: concurrent.futures.Future[None] = concurrent.futures.Future()
        """Has a result once kopf has started."""
        self._is_ending = False
        self.stop = threading.Event()
        self._operator = {"registry": registry, "settings": settings, "standalone": True, **operator}

    def run(self) -> None:
        """Run kopf to its end."""
        asyncio.run(self._operate())

    async def _operate(self) -> None:
        try:
            await kopf.operator(**self._operator, ready_flag=self.ready, stop_flag=self.stop)
        except Exception:
            log.exception("kopf has ended; /healthz fails, so that the kubelet restarts this container")
        finally:
            self.stop.set()  # releases the executor in which kopf waits for it

    @property
    def has_failed(self) -> bool:
        """Whether kopf has ended by itself."""
        return self.ident is not None and not self.is_alive() and not self._is_ending

    async def end(self) -> None:
        """End kopf, and wait until it has."""
        self._is_ending = True
        self.stop.set()
        await asyncio.to_thread(self.join, _EXIT_SECONDS)


async def follow_config_map(thread: KopfThread, on_ready: Callable[[], None]) -> None:
    """Watch until cancelled; `on_ready` is called once kopf has started."""
    thread.start()
    try:
        await asyncio.shield(asyncio.wrap_future(thread.ready))
        on_ready()
        await asyncio.Event().wait()
    finally:
        await thread.end()


def config_watch(
    to: connection.Connection,
    settings: ManagerSettings,
    store: ConfigMapStore,
    *,
    add: Callable[[], None],
    on_event: Callable[[str], None],
    identity: str,
) -> KopfThread:
    """Return kopf with the handler of the ConfigMap, which fills the store in the running loop.

    `add` is called for each change, `on_event` for each event; `identity` is that of this manager.
    """
    loop, registry = asyncio.get_running_loop(), new_registry(to)

    def deliver(kind: str | None, wire: Mapping[str, Any]) -> None:
        on_event(_PLURAL)
        name, uid = wire["metadata"]["name"], wire["metadata"].get("uid")
        try:
            if kind == "DELETED":
                store.remove(name, uid)
            else:
                store.update(store.decode(wire))
        except msgspec.ValidationError as error:
            log.warning("cannot decode ConfigMap %s: %s", name, error)
        else:
            add()

    @kopf.on.event("", "v1", _PLURAL, registry=registry)
    async def config_map(event: kopf.RawEvent, **_: Any) -> None:
        loop.call_soon_threadsafe(deliver, event["type"], event["object"])

    chosen = new_settings()
    chosen.watching.field_selectors["", "v1", _PLURAL] = f"metadata.name={settings.config_map}"
    return KopfThread(registry, chosen, identity=identity, namespaces=[settings.namespace])
