"""The certificate of the webhook: when it is renewed, and that no replica loses trust meanwhile."""

import asyncio
import base64
import contextlib
import datetime as dt
import email.utils
import errno
import ssl

import pytest
from cryptography import x509

from apiserver_client import connection, errors, session
from manager.cli.admission import certificate
from manager.cli.admission.certificate import CERTIFICATE_FILE, KEY_FILE, CertificateStore
from manager.cli.admission.settings import AdmissionSettings
from manager.cli.admission.webhook import AdmissionProgram
from tests.fakes import apiserver

HOST = "koord-admission.koordinator-system.svc"
NOW = dt.datetime(2026, 11, 24, tzinfo=dt.UTC)


@pytest.fixture(scope="module")
def pair():
    return certificate.make(HOST, NOW)


def test_a_new_certificate_is_for_the_service_and_trusts_itself(pair):
    made = x509.load_pem_x509_certificate(pair.certificate)
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [HOST]
    assert pair.bundle == pair.certificate
    assert certificate.problem(pair, HOST, NOW) == ""
    made.verify_directly_issued_by(made)


@pytest.mark.parametrize(
    ("days", "text"), [(-1, "valid until"), (0, ""), (274, ""), (275, "valid until 2027-11-24"), (400, "valid until")]
)
def test_it_is_renewed_90_days_before_its_end(pair, days, text):
    problem = certificate.problem(pair, HOST, NOW + dt.timedelta(days=days))
    assert text in problem
    assert bool(problem) == bool(text)


def test_a_renewed_one_keeps_the_one_before_it_and_no_others(pair):
    second = certificate.make(HOST, NOW + dt.timedelta(days=280), pair.bundle)
    assert second.bundle == second.certificate + pair.certificate
    third = certificate.make(HOST, NOW + dt.timedelta(days=281), second.bundle)
    assert third.bundle == third.certificate + second.certificate
    late = certificate.make(HOST, NOW + dt.timedelta(days=900), second.bundle)
    assert late.bundle == late.certificate


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (lambda pair, other: pair._replace(certificate=b""), "there is none"),
        (lambda pair, other: pair._replace(certificate=b"-----BEGIN CERTIFICATE-----\nAAAA\n"), "cannot be read"),
        (lambda pair, other: pair._replace(key=b"nonsense"), "cannot be read"),
        (lambda pair, other: pair._replace(key=other.key), "its key is of another certificate"),
        (lambda pair, other: pair._replace(bundle=other.bundle), "the bundle lacks it"),
        (lambda pair, other: pair._replace(bundle=b""), "cannot be read"),
    ],
)
def test_what_a_secret_may_hold_by_mistake_is_made_again(pair, spoil, text):
    other = certificate.make(HOST, NOW)
    assert text in certificate.problem(spoil(pair, other), HOST, NOW)
    assert certificate.make(HOST, NOW, b"nonsense").bundle.count(b"BEGIN") == 1


def test_a_certificate_of_another_release_is_made_again(pair):
    assert "another host" in certificate.problem(pair, "koord-admission.elsewhere.svc", NOW)


pytestmark = pytest.mark.slow

SECRET = "/api/v1/namespaces/koordinator-system/secrets/koord-admission-certificate"
CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/koord-suite-mid-limits"
IMPATIENT = session.Timeouts(request=3.0)
FAULTS = {
    "the API server restarts": apiserver.ABORT,
    "overload": apiserver.status(429, "TooManyRequests"),
    "etcd restarts": apiserver.status(500, "InternalError", "etcdserver: request timed out"),
    "a right is lost": apiserver.status(403, "Forbidden"),
    "the token ends": apiserver.status(401, "Unauthorized"),
    "the API server is silent": apiserver.HANG,
}


@pytest.fixture(scope="module")
def pairs():
    """Return a certificate, and the one that replaces it."""
    first = certificate.make(HOST, NOW)
    return first, certificate.make(HOST, NOW, first.bundle)


def encoded(data):
    return base64.b64encode(data).decode()


def secret(pair):
    data = {CERTIFICATE_FILE: pair.certificate, KEY_FILE: pair.key, "ca.crt": pair.bundle}
    return apiserver.Answer(
        {
            "metadata": {"name": "koord-admission-certificate"},
            "data": {key: encoded(each) for key, each in data.items()},
        }
    )


def trusting(pair):
    webhooks = [{"name": "mid", "clientConfig": {"caBundle": encoded(pair.bundle)}}]
    return apiserver.Answer({"metadata": {"name": "koord-suite-mid-limits"}, "webhooks": webhooks})


class Replica:
    """The store of one replica, and the context of its server."""

    def __init__(self, api, folder, now=NOW):
        self.folder = folder
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.settings = AdmissionSettings(certificate_dir=str(folder))
        self.store = CertificateStore(api, self.settings, self.context, lambda: now)

    def served(self):
        """Return the certificate that a new connection gets, as PEM."""
        trusting_all = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trusting_all.check_hostname, trusting_all.verify_mode = False, ssl.CERT_NONE
        there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
        client, server = trusting_all.wrap_bio(back, there), self.context.wrap_bio(there, back, server_side=True)
        for _ in range(3):
            for side in (client, server):
                with contextlib.suppress(ssl.SSLWantReadError):
                    side.do_handshake()
        return ssl.DER_cert_to_PEM_cert(client.getpeercert(binary_form=True)).encode()


@contextlib.asynccontextmanager
async def started(folder, pair, *later):
    """Run a replica that serves a certificate; the Secret answers are `later` from then on."""
    async with apiserver.running() as server:
        server.on("GET", SECRET, secret(pair), *later)
        server.on("GET", CONFIGURATION, trusting(pair))
        async with server.session(timeouts=IMPATIENT) as api:
            replica = Replica(api, folder)
            await replica.store.check()
            yield server, replica


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_while_the_secret_cannot_be_read_the_certificate_is_served_and_a_renewed_one_afterwards(
    tmp_path, pairs, fault
):
    first, second = pairs
    async with started(tmp_path / "c", first, fault, secret(second)) as (server, replica):
        server.on("PUT", CONFIGURATION, trusting(second))
        with pytest.raises(errors.ApiServerError):
            await replica.store.check()
        assert replica.served() == first.certificate
        await replica.store.check()
        assert replica.served() == second.certificate
        (put,) = server.asked("PUT", CONFIGURATION)
        assert put.document["webhooks"][0]["clientConfig"]["caBundle"] == encoded(second.bundle)


@pytest.mark.parametrize("file", [CERTIFICATE_FILE, KEY_FILE])
async def test_on_a_full_disk_the_certificate_before_is_served_and_the_renewed_one_once_there_is_room(
    tmp_path, pairs, file
):
    first, second = pairs
    folder = tmp_path / "c"
    async with started(folder, first, secret(second)) as (server, replica):
        server.on("PUT", CONFIGURATION, trusting(second))
        (folder / file).unlink()
        (folder / file).symlink_to("/dev/full")
        with pytest.raises(OSError, match="No space left") as refused:
            await replica.store.check()
        assert refused.value.errno == errno.ENOSPC
        assert replica.served() == first.certificate
        (folder / file).unlink()
        await replica.store.check()
        assert replica.served() == second.certificate


async def test_after_etcd_was_restored_the_older_certificate_is_served_and_trusted(tmp_path, pairs):
    first, second = pairs
    async with started(tmp_path / "c", second, secret(first)) as (server, replica):
        server.on("PUT", CONFIGURATION, trusting(first))
        await replica.store.check()
        assert replica.served() == first.certificate
        (put,) = server.asked("PUT")
        assert put.document["webhooks"][0]["clientConfig"]["caBundle"] == encoded(first.bundle)


@pytest.mark.parametrize("fault", [*FAULTS.values(), None], ids=[*FAULTS, "the folder cannot be written"])
async def test_a_replica_that_cannot_begin_names_the_reason_and_begins_by_itself(tmp_path, pairs, fault):
    first, folder = pairs[0], tmp_path / "c"
    if fault is None:
        folder.write_text("a file, in which no file can be made")
    async with apiserver.running() as server, server.session(timeouts=IMPATIENT) as api:
        server.on("GET", SECRET, *([fault] if fault else []), secret(first))
        server.on("GET", CONFIGURATION, trusting(first))
        replica, ready = Replica(api, folder), asyncio.Event()
        process = AdmissionProgram(replica.settings, connection.Connection(server=server.url, origin="the test"))
        checking = asyncio.create_task(process._check(replica.store, ready))
        async with asyncio.timeout(20):
            while not process._problem.startswith("certificate: "):
                await asyncio.sleep(0.01)
            assert not process._ready().ok
            assert not ready.is_set()
            if fault is None:
                folder.unlink()
            await ready.wait()
        assert replica.served() == first.certificate
        checking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await checking


@pytest.mark.parametrize("days", [275, 400, -300])
async def test_replicas_whose_clocks_differ_renew_nothing_in_turns(tmp_path, caplog, pairs, days):
    """The clock of the API server counts, so that the certificate of one is good for the other."""
    stored = secret(certificate.CertificatePair(b"", b"", b"")).document
    date = ("Date", email.utils.format_datetime(NOW, usegmt=True))
    async with apiserver.running() as server, server.session(timeouts=IMPATIENT) as api:
        server.on("GET", CONFIGURATION, trusting(pairs[0]))
        server.on("PUT", CONFIGURATION, trusting(pairs[0]))
        replicas = [Replica(api, tmp_path / "right"), Replica(api, tmp_path / "wrong", NOW + dt.timedelta(days=days))]
        for number in range(8):
            server._scripts["GET", SECRET].clear()  # the last answer of a script stays
            server.on("GET", SECRET, apiserver.Answer(stored, headers=(date,)))
            server.on("PUT", SECRET, apiserver.Answer({}))
            await replicas[number % 2].store.check()
            stored = server.asked("PUT", SECRET)[-1].document
    assert len(server.asked("PUT", SECRET)) == 1, "the first replica makes the only certificate"
    assert replicas[0].served() == replicas[1].served()
    assert "set the clock of the node" in caplog.text
