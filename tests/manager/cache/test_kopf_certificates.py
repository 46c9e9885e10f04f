"""The watch of the ConfigMap, by kopf itself, while certificates are replaced: when it reads their files again."""

import asyncio
import contextlib
import datetime as dt
import gc
import itertools

import pytest

from apiserver_client import connection
from component_base import clock
from manager.cache import kopf_watches
from manager.cache.event_sink import EventSink
from manager.cache.store import ClusterStore
from manager.settings import ManagerSettings
from tests.fakes import certificates, cluster, connections, credential_program

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")
"""The event loop of kopf may end before a reset connection of TLS is closed; `_quick` collects what is left of it."""

NAMESPACE, NAME = "koordinator-system", "slo-controller-config"
LOGIN_LIFE_SECONDS = 1.0
WITHIN_SECONDS = 720
"""Longest time to the next login: the life of one, and that of a watch that gets no answer."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def first(folder):
    return certificates.make(folder, "first")


@pytest.fixture(scope="module")
def second(folder):
    return certificates.make(folder, "second")


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Let each wait of kopf be a second at most, and let it not kill pytest where its own exit hangs."""
    settings = kopf_watches.operator_settings(ManagerSettings())
    assert settings.watching.inactivity_timeout + kopf_watches._LOGIN_LIFE.total_seconds() < WITHIN_SECONDS
    settings.watching.inactivity_timeout = 1.0
    settings.process.ultimate_exiting_timeout = None
    monkeypatch.setattr(kopf_watches, "operator_settings", lambda _: settings)
    monkeypatch.setattr(kopf_watches.EndlessBackoff, "__iter__", lambda _self: itertools.repeat(0.1))
    monkeypatch.setattr(kopf_watches, "_CALM_SECONDS", 0.0)
    monkeypatch.setattr(kopf_watches, "_LOGIN_LIFE", dt.timedelta(seconds=LOGIN_LIFE_SECONDS))
    yield
    gc.collect()


class Apiserver:
    """A cluster behind TLS, whose certificate is replaced at one address."""

    def __init__(self, certificate, trusted_clients=None):
        self.cluster = cluster.Cluster()
        self.cluster.add("configmaps", {"metadata": {"name": NAME}, "data": {"is": "0"}}, NAMESPACE)
        self.tls = certificate.server_context(trusted_clients)
        self._writers = []

    async def serve(self, reader, writer):
        self._writers.append(writer)
        await self.cluster.serve(reader, writer)

    def restart_with(self, certificate):
        self.tls.load_cert_chain(certificate.certificate_path, certificate.key_path)
        self.reset()

    def reset(self):
        for writer in self._writers:
            writer.transport.abort()

    def edit(self, text):
        self.cluster.patch("configmaps", NAME, {"data": {"is": text}}, NAMESPACE)


@contextlib.asynccontextmanager
async def served(certificate, trusted_clients=None):
    made = Apiserver(certificate, trusted_clients)
    async with connections.served(made.serve, made.tls) as port:
        made.cluster.url = f"https://127.0.0.1:{port}"
        yield made


class Followed:
    """The ConfigMap as the leader's store has it, and kopf, which fills it."""

    def __init__(self, server, **credentials):
        self.store = ClusterStore()
        self.seen = []
        sink = EventSink(self.store, add=lambda _: None, add_config=lambda: None)
        to = connection.Connection(server=server.cluster.url, origin="the test", namespace=NAMESPACE, **credentials)
        handlers = kopf_watches.registry(
            to, ManagerSettings(), sink,
            loop=asyncio.get_running_loop(), seen=self.seen.append, clock=clock.utc_now,
        )  # fmt: skip
        self.running = asyncio.create_task(
            kopf_watches.follow(handlers, ManagerSettings(), identity="test", on_ready=lambda: None)
        )

    def text(self):
        found = self.store.config_maps.get(NAME)
        return found.data["is"] if found else None

    async def until(self, text, seconds=20):
        async with asyncio.timeout(seconds):
            while self.text() != text and not self.running.done():
                await asyncio.sleep(0.02)
        assert self.text() == text

    async def end(self):
        self.running.cancel()
        await asyncio.gather(self.running, return_exceptions=True)


@contextlib.asynccontextmanager
async def following(server, **credentials):
    followed = Followed(server, **credentials)
    try:
        yield followed
    finally:
        await followed.end()


@pytest.fixture
def authority(first, tmp_path):
    certificates.replace(tmp_path / "ca.crt", first.certificate_path)
    return tmp_path / "ca.crt"


async def test_with_a_token_file_a_new_authority_is_trusted_from_the_next_login_on(first, second, authority, tmp_path):
    (tmp_path / "token").write_text("t")
    async with served(first) as server, following(server, ca_path=authority, token_path=tmp_path / "token") as followed:
        await followed.until("0")
        assert followed.seen == ["configmaps"], "each event counts in the metrics"
        certificates.replace(authority, second.certificate_path)
        server.restart_with(second)
        server.edit("1")
        await followed.until("1")


async def test_without_a_token_file_too_a_new_authority_is_trusted_from_the_next_login_on(first, second, authority):
    async with served(first) as server, following(server, ca_path=authority, token="t") as followed:
        await followed.until("0")
        certificates.replace(authority, second.certificate_path)
        server.restart_with(second)
        server.edit("1")
        await followed.until("1")


async def test_a_new_client_certificate_is_used_where_the_old_one_is_refused(first, second, authority, tmp_path):
    files = {"client_certificate_path": tmp_path / "tls.crt", "client_key_path": tmp_path / "tls.key"}
    certificates.replace(files["client_certificate_path"], first.certificate_path)
    certificates.replace(files["client_key_path"], first.key_path)
    async with (
        served(first, trusted_clients=first) as server,
        following(server, ca_path=authority, **files) as followed,
    ):
        await followed.until("0")
        server.cluster.refuse["WATCH", "configmaps"] = cluster.Refusal(401, "Unauthorized")
        server.reset()
        await asyncio.sleep(LOGIN_LIFE_SECONDS)
        certificates.replace(files["client_certificate_path"], second.certificate_path)
        await asyncio.sleep(2 * LOGIN_LIFE_SECONDS)  # logins meanwhile find the key of another certificate
        certificates.replace(files["client_key_path"], second.key_path)
        server.tls.load_verify_locations(second.certificate_path)
        del server.cluster.refuse["WATCH", "configmaps"]
        server.edit("1")
        await followed.until("1")


@pytest.mark.parametrize("from_a_program", [False, True])
async def test_while_a_credential_is_refused_requests_pause_longer_and_longer(
    first, authority, monkeypatch, tmp_path, from_a_program
):
    printed = credential_program.printing(tmp_path, token="t")
    credentials = {"exec_command": printed} if from_a_program else {"token": "t"}
    monkeypatch.setattr(kopf_watches, "_CALM_SECONDS", 60.0)
    monkeypatch.setattr(kopf_watches, "_LOGIN_LIFE", dt.timedelta(minutes=10))
    logins = []
    log_in = kopf_watches.log_in

    async def counted(to, now):
        logins.append(now)
        return await log_in(to, now)

    monkeypatch.setattr(kopf_watches, "log_in", counted)
    async with served(first) as server, following(server, ca_path=authority, **credentials) as followed:
        await followed.until("0")
        refusal = cluster.Refusal(401, "Unauthorized")
        server.cluster.refuse.update({("WATCH", "configmaps"): refusal, ("LIST", "configmaps"): refusal})
        server.reset()
        await asyncio.sleep(4)
        assert 3 <= len(logins) <= 7
        assert not followed.running.done()
