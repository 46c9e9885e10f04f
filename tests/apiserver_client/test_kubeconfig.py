"""Kubeconfig files, valid and invalid, and the one-line error."""

import base64
import json
import ssl

import pytest
import yaml

from apiserver_client import errors, kubeconfig

PEM = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


def document(cluster=None, user=None, **changes):
    whole = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "dev",
        "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443/", **(cluster or {})}}],
        "contexts": [{"name": "dev", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        "users": [{"name": "u", "user": {"token": "t0"} if user is None else user}],
    }
    return {**whole, **changes}


@pytest.fixture
def written(tmp_path):
    def write(content, name="config"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        return path

    return write


def refused(path, context=None):
    with pytest.raises(errors.NoCredentials) as caught:
        kubeconfig.load([path], context)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_server_namespace_and_token_come_from_the_current_context(written):
    loaded = kubeconfig.load([written(document())])
    assert (loaded.server, loaded.namespace, loaded.read_token()) == ("https://10.0.0.1:6443", "team", "t0")


def test_another_context_can_be_named(written):
    contexts = [{"name": "other", "context": {"cluster": "c"}}]
    loaded = kubeconfig.load([written(document(contexts=contexts))], "other")
    assert (loaded.namespace, loaded.read_token()) == ("default", None)


def test_relative_paths_start_at_the_file(written, tmp_path):
    user = {"tokenFile": "secrets/token", "client-certificate": "/abs/a.crt", "client-key": "a.key"}
    loaded = kubeconfig.load([written(document({"certificate-authority": "ca.crt"}, user), "deep/config")])
    assert loaded.ca_path == tmp_path / "deep/ca.crt"
    assert loaded.token_path == tmp_path / "deep/secrets/token"
    assert str(loaded.client_certificate_path) == "/abs/a.crt"
    assert loaded.client_key_path == tmp_path / "deep/a.key"


def test_data_wins_over_a_path_and_is_decoded(written):
    data = base64.b64encode(PEM).decode()
    loaded = kubeconfig.load([written(document({"certificate-authority": "x", "certificate-authority-data": data}))])
    assert (loaded.ca_path, loaded.ca_data) == (None, PEM)


def test_keeps_keys_that_the_parser_drops(written):
    loaded = kubeconfig.load([written(document({"tls-server-name": "kube", "proxy-url": "http://p:1"}))])
    assert (loaded.tls_server_name, loaded.proxy_url) == ("kube", "http://p:1")


def test_of_several_files_the_first_that_has_an_entry_wins(written, tmp_path):
    first = written({"clusters": [{"name": "c", "cluster": {"server": "https://first"}}]}, "one")
    second = written(document(), "two")
    loaded = kubeconfig.load([tmp_path / "missing", first, second])
    assert (loaded.server, loaded.read_token()) == ("https://first", "t0")


def test_secrets_are_not_logged(written):
    assert "t0" not in repr(kubeconfig.load([written(document())]))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a: 2026-13-01", "is not YAML"),
        ("\x00", "is not YAML"),
        ("just text", "is not a kubeconfig: it has no clusters"),
        ("{}", "is not a kubeconfig: it has no clusters"),
        (document(clusters=[{"name": "c"}]), "is not a kubeconfig: KeyError('cluster')"),
        (document(clusters={"c": {}}), "is not a kubeconfig"),
        (document({"server": 7}), "is not a kubeconfig"),
        (document(**{"current-context": None}), "current-context is not set; contexts: dev"),
        (document(**{"current-context": "prod"}), "no context named 'prod'; there are: dev"),
        (
            document(contexts=[{"name": "dev", "context": {"cluster": "x"}}]),
            "no cluster named 'x'; there are: c",
        ),
        (
            document(contexts=[{"name": "dev", "context": {"cluster": "c", "user": "x"}}]),
            "no user named 'x'; there are: u",
        ),
        (document({"certificate-authority-data": "%"}), "certificate-authority-data is not base64"),
        (document(user={"auth-provider": {"name": "gcp"}}), "auth-provider is not supported"),
    ],
)
def test_reports_a_problem_in_one_line_with_the_file(written, content, expected):
    assert expected in refused(written(content))


@pytest.mark.parametrize(
    ("cluster", "expected"),
    [
        ({"certificate-authority": "none.crt"}, "none.crt"),
        ({"certificate-authority-data": base64.b64encode(b"no pem").decode()}, "data in the kubeconfig"),
        ({"certificate-authority": "ca.crt", "insecure-skip-tls-verify": True}, "want one of them"),
    ],
)
def test_names_a_certificate_that_cannot_be_loaded(written, cluster, expected):
    loaded = kubeconfig.load([written(document(cluster))])
    with pytest.raises(errors.NoCredentials, match=expected):
        loaded.tls_context()


def test_an_insecure_cluster_is_not_verified(written):
    context = kubeconfig.load([written(document({"insecure-skip-tls-verify": True}))]).tls_context()
    assert context is not None
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_NONE, False)


@pytest.mark.parametrize("provide", [True, False])
def test_a_program_gets_the_cluster_where_the_kubeconfig_says_so(written, provide):
    authority = written(PEM.decode(), "ca.crt")
    config = {"audience": "a"}
    cluster = {
        "certificate-authority": str(authority),
        "tls-server-name": "kube",
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": config}],
    }
    program = {"apiVersion": "client.authentication.k8s.io/v1", "command": "login", "provideClusterInfo": provide}
    command = kubeconfig.load([written(document(cluster, {"exec": program}))]).exec_command
    assert json.loads(command.cluster or "null") == (
        {
            "server": "https://10.0.0.1:6443",
            "tls-server-name": "kube",
            "certificate-authority-data": base64.b64encode(PEM).decode(),
            "config": config,
        }
        if provide
        else None
    )


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
        return kubeconfig.find(path, environ=environ, service_account=account, home=tmp_path, **more).server

    assert server(given, everything) == "https://given"
    assert server(None, everything) == "https://listed"
    assert server(None, IN_POD) == "https://10.96.0.1:443"
    assert server(None, {}) == "https://home"
    assert server(None, IN_POD, context="x") == "https://home", "a context is one of a kubeconfig"


def test_a_pod_uses_its_service_account(account):
    found = kubeconfig.find(environ=IN_POD, service_account=account)
    assert (found.namespace, found.read_token()) == ("koordinator-system", "pod-token")
    assert (found.ca_path, found.token_path) == (account / "ca.crt", account / "token")


def test_an_ipv6_address_is_put_in_brackets(account):
    found = kubeconfig.find(environ={"KUBERNETES_SERVICE_HOST": "fd00::1"}, service_account=account)
    assert found.server == "https://[fd00::1]:443"


def test_names_every_source_that_was_tried(tmp_path):
    with pytest.raises(errors.NoCredentials) as caught:
        kubeconfig.find(environ={}, service_account=tmp_path, home=tmp_path)
    assert str(caught.value) == (
        "no credentials for a kube-apiserver: no kubeconfig given; KUBECONFIG is not set; not in a pod "
        f"(KUBERNETES_SERVICE_HOST is not set); {tmp_path}/.kube/config does not exist. "
        "Set a kubeconfig, or run as a pod with a service account"
    )


def test_names_the_missing_token_of_a_pod(tmp_path):
    with pytest.raises(errors.NoCredentials, match="automountServiceAccountToken"):
        kubeconfig.find(environ=IN_POD, service_account=tmp_path, home=tmp_path)


def test_a_broken_source_is_an_error_and_not_skipped(tmp_path, config, account):
    config(".kube/config", "https://home")
    environ = {**IN_POD, "KUBECONFIG": str(tmp_path / "none")}
    with pytest.raises(errors.NoCredentials, match="none"):
        kubeconfig.find(environ=environ, service_account=account, home=tmp_path)
