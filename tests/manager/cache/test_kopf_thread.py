import asyncio
import datetime as dt

import kopf
import pytest

from apiserver_client import connection, errors
from component_base import clock
from manager.cache import kopf_thread
from manager.cache.kopf_thread import KopfThread
from tests.fakes import certificates, credential_program


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
