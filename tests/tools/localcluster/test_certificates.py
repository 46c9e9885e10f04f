"""Certificates that openssl itself accepts."""

import json
import shutil
import stat
import subprocess

import pytest

from tools.localcluster import certificates, control_plane, kubeconfigs
from tools.localcluster.layout import Layout

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl command")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pki") / "certificates"
    certificates.make_authority(folder)
    certificates.make_token_keys(folder)
    addresses = ("127.0.0.1", "::1", "kubernetes.default.svc")
    certificates.sign(folder, "apiserver", user="kube-apiserver", addresses=addresses)
    certificates.sign(folder, "kubelet", user="system:node:local", group="system:nodes")
    return folder


def openssl(*words):
    return subprocess.run(["openssl", *map(str, words)], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(("name", "purpose"), [("apiserver", "sslserver"), ("kubelet", "sslclient")])
def test_a_signed_certificate_is_valid_for_its_purpose(folder, name, purpose):
    assert "OK" in openssl("verify", "-CAfile", folder / "ca.crt", "-purpose", purpose, folder / f"{name}.crt")


def test_a_server_certificate_names_addresses_and_host_names(folder):
    text = openssl("x509", "-in", folder / "apiserver.crt", "-noout", "-ext", "subjectAltName")
    assert "IP Address:127.0.0.1" in text
    assert "IP Address:0:0:0:0:0:0:0:1" in text
    assert "DNS:kubernetes.default.svc" in text


def test_a_client_certificate_holds_user_and_group(folder):
    subject = openssl("x509", "-in", folder / "kubelet.crt", "-noout", "-subject", "-nameopt", "RFC2253")
    assert "CN=system:node:local" in subject
    assert "O=system:nodes" in subject


def test_keys_are_for_their_owner_only(folder):
    for key in folder.glob("*.key"):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600, key.name


def test_a_kubeconfig_is_complete_in_itself_and_for_its_owner_only(folder, tmp_path):
    file = tmp_path / "kubeconfig"
    kubeconfigs.write(file, server="https://192.0.2.1:6443", certificates_folder=folder, name="kubelet")
    document = json.loads(file.read_text())
    assert document["clusters"][0]["cluster"]["server"] == "https://192.0.2.1:6443"
    assert document["users"][0]["user"]["client-certificate-data"]
    assert str(folder) not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    state = tmp_path_factory.mktemp("state")
    places = Layout(state=state, run=state)
    control_plane.make_identities(places)
    return places


def test_the_front_proxy_has_an_authority_of_its_own(places):
    proxy, client = places.front_proxy / "front-proxy-client.crt", places.certificates / "admin.crt"
    assert "OK" in openssl("verify", "-purpose", "sslclient", "-CAfile", places.front_proxy / "ca.crt", proxy)
    for authority, other in ((places.certificates, proxy), (places.front_proxy, client)):
        with pytest.raises(subprocess.CalledProcessError):
            openssl("verify", "-CAfile", authority / "ca.crt", other)


def test_makes_missing_certificates_and_keeps_the_others(places):
    kept = {file: file.read_bytes() for file in places.certificates.glob("*.*") if file.is_file()}
    shutil.rmtree(places.front_proxy)
    control_plane.make_identities(places)
    assert (places.front_proxy / "front-proxy-client.key").exists()
    assert {file: file.read_bytes() for file in kept} == kept
