import datetime as dt

import kopf
import pytest

from apiserver_client import connection, errors
from manager.cache import kopf_watches
from manager.settings import ManagerSettings

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


def test_credentials_that_do_not_rotate_do_not_expire():
    assert kopf_watches.connection_info(to(token="t"), NOW).expiration is None


@pytest.mark.parametrize(
    "fields", [{"exec_command": connection.ExecCommand("v1", ("aws",))}, {"tls_server_name": "apiserver"}]
)
def test_credentials_that_kopf_cannot_use_are_refused_with_the_way_out(fields):
    with pytest.raises(kopf_watches.UnsupportedCredentials, match="give a kubeconfig with a token or a client cert"):
        kopf_watches.connection_info(to(**fields), NOW)


def test_a_missing_token_is_said(tmp_path):
    with pytest.raises(errors.NoCredentials, match="cannot read the token"):
        kopf_watches.connection_info(to(token_path=tmp_path / "none"), NOW)


def test_nothing_is_posted_peered_or_waited_for_without_end():
    chosen = kopf_watches.operator_settings(ManagerSettings(config_map="other"))
    assert chosen.posting.enabled is False
    assert chosen.peering.standalone is True
    bounds = (
        chosen.watching.server_timeout, chosen.watching.client_timeout, chosen.watching.connect_timeout,
        chosen.watching.inactivity_timeout, chosen.networking.request_timeout, chosen.networking.connect_timeout,
    )  # fmt: skip
    assert all(bound is not None and 0 < bound <= 600 for bound in bounds)
    assert list(chosen.watching.field_selectors.values()) == ["metadata.name=other"]


def test_kopf_copies_no_object_to_find_out_what_changed():
    """As by its default it would: two thirds of what an event of a node with 50 pods costs."""
    pods = [{"name": f"pod-{number}"} for number in range(50)]
    body = kopf.Body({"metadata": {"name": "n1", "labels": {"a": "b"}}, "spec": {}, "status": {"podsMetric": pods}})
    storage = kopf_watches.operator_settings(ManagerSettings()).persistence.diffbase_storage
    assert storage.build(body=body) == {}
    assert storage.fetch(body=body) is None
