"""Precedence of credentials, and the error without any."""

import pytest
import yaml

from apiserver_client import credentials, errors


@pytest.fixture
def config(tmp_path):
    def write(name, server):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        document = {
            "current-context": "x",
            "clusters": [{"name": "x", "cluster": {"server": server}}],
            "contexts": [{"name": "x", "context": {"cluster": "x"}}],
        }
        path.write_text(yaml.safe_dump(document))
        return path

    return write


@pytest.fixture
def account(tmp_path):
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    (folder / "token").write_text("pod-token\n")
    (folder / "namespace").write_text("koordinator-system")
    (folder / "ca.crt").write_text("")
    return folder


IN_POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def test_the_order_is_argument_then_variable_then_pod_then_home(tmp_path, config, account):
    given, listed = config("given", "https://given"), config("listed", "https://listed")
    config(".kube/config", "https://home")
    everything = {**IN_POD, "KUBECONFIG": str(listed)}

    def server(path=None, environ=IN_POD, **more):
        return credentials.find(path, environ=environ, service_account=account, home=tmp_path, **more).server

    assert server(given, everything) == "https://given"
    assert server(None, everything) == "https://listed"
    assert server(None, IN_POD) == "https://10.96.0.1:443"
    assert server(None, {}) == "https://home"
    assert server(None, IN_POD, context="x") == "https://home", "a context is one of a kubeconfig"


def test_a_pod_uses_its_service_account(account):
    found = credentials.find(environ=IN_POD, service_account=account)
    assert (found.namespace, found.read_token()) == ("koordinator-system", "pod-token")
    assert (found.ca_path, found.token_path) == (account / "ca.crt", account / "token")


def test_an_ipv6_address_is_put_in_brackets(account):
    found = credentials.find(environ={"KUBERNETES_SERVICE_HOST": "fd00::1"}, service_account=account)
    assert found.server == "https://[fd00::1]:443"


def test_names_every_source_that_was_tried(tmp_path):
    with pytest.raises(errors.NoCredentials) as caught:
        credentials.find(environ={}, service_account=tmp_path, home=tmp_path)
    assert str(caught.value) == (
        "no credentials for a kube-apiserver: no kubeconfig given; KUBECONFIG is not set; not in a pod "
        f"(KUBERNETES_SERVICE_HOST is not set); {tmp_path}/.kube/config does not exist. "
        "Set a kubeconfig, or run as a pod with a service account"
    )


def test_names_the_missing_token_of_a_pod(tmp_path):
    with pytest.raises(errors.NoCredentials, match="automountServiceAccountToken"):
        credentials.find(environ=IN_POD, service_account=tmp_path, home=tmp_path)


def test_a_broken_source_is_an_error_and_not_skipped(tmp_path, config, account):
    config(".kube/config", "https://home")
    environ = {**IN_POD, "KUBECONFIG": str(tmp_path / "none")}
    with pytest.raises(errors.NoCredentials, match="none"):
        credentials.find(environ=environ, service_account=account, home=tmp_path)
