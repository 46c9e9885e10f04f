import asyncio
import datetime as dt
import logging
import threading
import time

import kopf
import pytest

from api_types.kubernetes import times
from apiserver_client import connection, errors
from manager.cache import kopf_watches
from manager.settings import ManagerSettings
from tests.fakes import certificates, credential_program

NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)


def to(**fields):
    return connection.Connection(server="https://10.0.0.1:6443", origin="the test", **fields)


def test_a_token_file_is_read_at_login_and_again_before_it_can_expire(tmp_path):
    file = tmp_path / "token"
    file.write_text("first\n")
    given = to(token_path=file, ca_path=tmp_path / "ca.crt")
    info = kopf_watches.connection_info(given, NOW)
    assert (info.token, info.ca_path, info.server) == ("first", tmp_path / "ca.crt", "https://10.0.0.1:6443")
    assert info.expiration is not None
    assert dt.timedelta(0) < info.expiration - NOW < dt.timedelta(minutes=30)
    file.write_text("second\n")
    assert kopf_watches.connection_info(given, NOW).token == "second"


def test_a_credential_without_a_file_expires_too_so_that_the_authority_is_read_again():
    assert kopf_watches.connection_info(to(token="t"), NOW).expiration - NOW == dt.timedelta(minutes=10)


async def test_logins_that_follow_one_another_wait_longer_each_time(monkeypatch):
    now, waits = [1000.0], []

    async def sleep(seconds):
        waits.append(seconds)
        now[0] += seconds

    monkeypatch.setattr(kopf_watches.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(kopf_watches.asyncio, "sleep", sleep)
    monkeypatch.setattr(kopf_watches.random, "random", lambda: 0.0)
    log_in = kopf_watches.login(to(token="t"), lambda: NOW)
    for _ in range(8):
        await log_in()
    assert waits == [0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 15.0]
    now[0] += kopf_watches._CALM_SECONDS
    await log_in()
    assert len(waits) == 7, "a login long after the one before waits for nothing"


def test_refuses_what_kopf_cannot_use_and_names_the_fix():
    with pytest.raises(kopf_watches.UnsupportedCredentials, match="give a kubeconfig whose server has a name or an"):
        kopf_watches.connection_info(to(tls_server_name="apiserver"), NOW)


async def test_a_credential_program_runs_at_each_login_and_its_credential_is_renewed_before_it_expires(tmp_path):
    expires = times.format_epoch(time.time() + 1000)
    given = to(exec_command=credential_program.printing(tmp_path, token="one", expirationTimestamp=expires))
    assert kopf_watches.connection_info(given, NOW).token is None, "the check at the start does not run it"
    info = await kopf_watches.log_in(given, NOW)
    assert info.token == "one"
    assert dt.timedelta(seconds=700) < info.expiration - NOW <= dt.timedelta(seconds=800)
    credential_program.printing(tmp_path, token="two")
    info = await kopf_watches.log_in(given, NOW)
    assert (info.token, info.expiration - NOW) == ("two", dt.timedelta(minutes=10))


async def test_kopf_loads_the_client_certificate_of_a_credential_program(tmp_path):
    own = certificates.make(tmp_path, "own")
    certificate, key = own.certificate_path.read_text(), own.key_path.read_text()
    given = to(exec_command=credential_program.printing(tmp_path, clientCertificateData=certificate, clientKeyData=key))
    info = await kopf_watches.log_in(given, NOW)
    assert info.as_http_headers() == {}
    assert info.as_ssl_context() is not None


async def test_files_that_change_after_the_login_do_not_end_kopf(tmp_path):
    own = certificates.make(tmp_path, "own")
    given = to(ca_path=own.certificate_path, client_certificate_path=own.certificate_path, client_key_path=own.key_path)
    info = await kopf_watches.log_in(given, NOW)
    own.key_path.write_text("another key, whose certificate follows")
    assert info.as_ssl_context().cert_store_stats()["x509_ca"] == 1
    with pytest.raises(errors.NoCredentials, match="cannot load the certificates or the key"):
        await kopf_watches.log_in(given, NOW)


def test_reports_a_missing_token(tmp_path):
    with pytest.raises(errors.NoCredentials, match="cannot read the token"):
        kopf_watches.connection_info(to(token_path=tmp_path / "none"), NOW)


def test_posts_peers_and_scans_nothing_and_bounds_every_wait():
    chosen = kopf_watches.operator_settings(ManagerSettings(config_map="other"))
    assert chosen.posting.enabled is False
    assert chosen.peering.standalone is True
    assert chosen.scanning.disabled is True
    bounds = (
        chosen.watching.server_timeout, chosen.watching.client_timeout, chosen.watching.connect_timeout,
        chosen.watching.inactivity_timeout, chosen.networking.request_timeout, chosen.networking.connect_timeout,
    )  # fmt: skip
    assert all(bound is not None and 0 < bound <= 600 for bound in bounds)
    assert list(chosen.watching.field_selectors.values()) == ["metadata.name=other"]


def test_kopf_copies_no_object_to_compare_it():
    """The default storage does: two thirds of the cost of an event of a node with 50 pods."""
    pods = [{"name": f"pod-{number}"} for number in range(50)]
    body = kopf.Body({"metadata": {"name": "n1", "labels": {"a": "b"}}, "spec": {}, "status": {"podsMetric": pods}})
    storage = kopf_watches.operator_settings(ManagerSettings()).persistence.diffbase_storage
    assert storage.build(body=body) == {}
    assert storage.fetch(body=body) is None


def test_backoff_has_no_end():
    delays = iter(kopf_watches.operator_settings(ManagerSettings()).networking.error_backoffs)
    assert all(0 < next(delays) <= 60 for _ in range(1000))


async def fake_operator(*, ready_flag, stop_flag, fails=None, **_):
    ready_flag.set_result(None)
    if fails is not None:
        raise fails
    await asyncio.to_thread(stop_flag.wait)


async def test_kopf_runs_in_its_own_thread_until_the_task_is_cancelled(monkeypatch):
    ran_in = []

    async def operator(**given):
        ran_in.append(threading.current_thread().name)
        await fake_operator(**given)

    monkeypatch.setattr(kopf, "operator", operator)
    ready = asyncio.Event()
    task = asyncio.create_task(
        kopf_watches.follow(kopf.OperatorRegistry(), ManagerSettings(), identity="test", on_ready=ready.set)
    )
    await ready.wait()
    assert ran_in == ["kopf"]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(5):
        while "kopf" in [thread.name for thread in threading.enumerate()]:
            await asyncio.sleep(0.01)


async def test_raises_what_has_ended_kopf(monkeypatch):
    monkeypatch.setattr(kopf, "operator", lambda **given: fake_operator(fails=KeyError("a bug"), **given))
    with pytest.raises(KeyError, match="a bug"):
        await kopf_watches.follow(kopf.OperatorRegistry(), ManagerSettings(), identity="test", on_ready=lambda: None)


def test_logs_kopfs_errors_in_one_line_and_nothing_below(caplog):
    kopf_watches.configure_logging()
    logger = logging.getLogger("kopf")
    try:
        child = logging.getLogger("kopf.a.module")
        child.warning("OS signals are ignored")
        child.error("it has failed", exc_info=ValueError("x"))
    finally:
        logger.setLevel(logging.NOTSET)
        for handler in list(logger.handlers):
            logger.removeHandler(handler)
    assert [(each.getMessage(), each.exc_info) for each in caplog.records] == [("it has failed", None)]
