"""The watch of the ConfigMap, by kopf itself: its events, replaced certificates, refusals, and reads of its own."""

import asyncio
import contextlib
import datetime as dt
import gc
import itertools

import kopf
import pytest

from apiserver_client import connection, errors, session
from component_base import clock
from manager import leader
from manager.cache import kopf_thread
from manager.cache.kopf_thread import KopfThread
from manager.cache.store import ClusterStore
from manager.settings import ManagerSettings
from tests.fakes import certificates, cluster, connections, credential_program

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]
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
    """Let each wait of kopf be a second at most."""
    settings = kopf_thread.new_settings()
    assert settings.watching.inactivity_timeout + kopf_thread._LOGIN_LIFE.total_seconds() < WITHIN_SECONDS
    settings.watching.inactivity_timeout = 1.0
    settings.networking.error_backoffs = itertools.repeat(0.1)
    monkeypatch.setattr(kopf_thread, "new_settings", lambda: settings)
    monkeypatch.setattr(kopf_thread, "RETRY_SECONDS", 0.1)
    monkeypatch.setattr(kopf_thread, "_LOGIN_LIFE", dt.timedelta(seconds=LOGIN_LIFE_SECONDS))
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
        to = connection.Connection(server=server.cluster.url, origin="the test", namespace=NAMESPACE, **credentials)
        self.thread = kopf_thread.config_watch(
            to, ManagerSettings(), self.store.config_maps, add=lambda: None, on_event=self.seen.append, identity="test"
        )
        self.running = asyncio.create_task(kopf_thread.follow_config_map(self.thread, lambda: None))

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


async def test_while_a_credential_is_refused_logins_pause_and_kopf_does_not_end(first, authority, monkeypatch):
    monkeypatch.setattr(kopf_thread, "RETRY_SECONDS", 1.0)
    logins = []
    connection_info = kopf_thread.connection_info

    def counted(to):
        logins.append(to)
        return connection_info(to)

    monkeypatch.setattr(kopf_thread, "connection_info", counted)
    async with served(first) as server, following(server, ca_path=authority, token="t") as followed:
        await followed.until("0")
        refusal = cluster.Refusal(401, "Unauthorized")
        server.cluster.refuse.update({("WATCH", "configmaps"): refusal, ("LIST", "configmaps"): refusal})
        server.reset()
        before = len(logins)
        await asyncio.sleep(4)
        assert 2 <= len(logins) - before <= 5
        assert followed.thread.is_alive()


async def test_an_error_that_ends_kopf_is_known(first, authority, monkeypatch, caplog):
    async def fails(**_):
        raise KeyError("a bug")

    monkeypatch.setattr(kopf, "operator", fails)
    async with served(first) as server, following(server, ca_path=authority, token="t") as followed:
        async with asyncio.timeout(10):
            while followed.thread.ident is None or followed.thread.is_alive():
                await asyncio.sleep(0.01)
    assert "kopf has ended" in caplog.text


SETTINGS = ManagerSettings()


async def test_a_read_finds_what_kopf_has_missed(monkeypatch):
    monkeypatch.setattr(leader, "READ_SECONDS", 0.05)
    decisions = []
    async with cluster.running() as server, session.connect(server.connection(), user_agent="test") as api:
        known = ClusterStore().config_maps

        def text():
            config_map = known.get(NAME)
            return config_map.data["is"] if config_map else None

        async def until(expected):
            async with asyncio.timeout(10):
                while text() != expected:
                    await asyncio.sleep(0.01)

        server._version = 1_000
        server.add("configmaps", {"metadata": {"name": NAME}, "data": {"is": "0"}}, NAMESPACE)
        reads = asyncio.create_task(leader.read_hourly(api, SETTINGS, known, lambda: decisions.append(1)))
        await until("0")
        server.patch("configmaps", NAME, {"data": {"is": "1"}}, NAMESPACE)
        await until("1")
        server.remove("configmaps", NAME, NAMESPACE)
        await until(None)
        assert known.is_read
        server.add("configmaps", {"metadata": {"name": NAME}, "data": {"is": "2"}}, NAMESPACE)
        await until("2")
        server.restore(10)
        server.patch("configmaps", NAME, {"data": {"is": "3"}}, NAMESPACE)
        await until("3")
        server.refuse["GET", "configmaps"] = cluster.Refusal(403, "Forbidden")
        before = len(decisions)
        async with asyncio.timeout(10):
            while len(decisions) < before + 2:
                await asyncio.sleep(0.01)
        assert text() == "3", "a refused read changes nothing"
        reads.cancel()


def to(**fields):
    return connection.Connection(server="https://10.0.0.1:6443", origin="the test", **fields)


async def log_in(given):
    (handler,) = kopf_thread.new_registry(given)._activities.get_all_handlers()
    return await handler.fn()


def test_a_token_file_is_read_at_each_login_and_every_login_expires(tmp_path):
    file = tmp_path / "token"
    file.write_text("first\n")
    given = to(token_path=file, ca_path=tmp_path / "ca.crt")
    info = kopf_thread.connection_info(given)
    assert (info.token, info.ca_path, info.server) == ("first", tmp_path / "ca.crt", "https://10.0.0.1:6443")
    assert dt.timedelta(0) < info.expiration - clock.utc_now() <= dt.timedelta(minutes=10)
    file.write_text("second\n")
    assert kopf_thread.connection_info(given).token == "second"


def test_refuses_what_kopf_cannot_use_and_names_the_fix():
    with pytest.raises(errors.NoCredentials, match="give a kubeconfig whose server has a name or an"):
        kopf_thread.connection_info(to(tls_server_name="apiserver"))


async def test_a_credential_program_runs_at_each_login(tmp_path):
    given = to(exec_command=credential_program.printing(tmp_path, token="one"))
    assert kopf_thread.connection_info(given).token is None, "the check at the start does not run it"
    assert (await log_in(given)).token == "one"
    credential_program.printing(tmp_path, token="two")
    assert (await log_in(given)).token == "two"


async def test_kopf_loads_the_client_certificate_of_a_credential_program(tmp_path):
    own = certificates.make(tmp_path, "own")
    certificate, key = own.certificate_path.read_text(), own.key_path.read_text()
    info = await log_in(
        to(exec_command=credential_program.printing(tmp_path, clientCertificateData=certificate, clientKeyData=key))
    )
    assert info.as_http_headers() == {}
    assert info.as_ssl_context() is not None


async def fake_operator(*, ready_flag, stop_flag, fails=None, **_):
    ready_flag.set_result(None)
    if fails is not None:
        raise fails
    await asyncio.to_thread(stop_flag.wait)


@pytest.mark.parametrize("fails", [None, KeyError("a bug")])
def test_the_thread_ends_by_its_flag_or_by_an_error(monkeypatch, caplog, fails):
    monkeypatch.setattr(kopf, "operator", lambda **given: fake_operator(fails=fails, **given))
    thread = KopfThread(kopf.OperatorRegistry(), kopf_thread.new_settings())
    thread.start()
    thread.ready.result(10)
    if fails is None:
        assert thread.is_alive()
        thread.stop.set()
    thread.join(10)
    assert not thread.is_alive()
    assert ("KeyError: 'a bug'" in caplog.text) is (fails is not None)
