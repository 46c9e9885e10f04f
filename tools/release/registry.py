"""Run a registry on this machine for the tests of a release: TLS of an authority of its own, a password, an audit.

It is distribution, of programs.py.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import yaml

from tools.localcluster import certificates, progress
from tools.localcluster.errors import ClusterProblem
from tools.localcluster.host import commands, ports
from tools.release import programs

USER: Final = "rehearsal"
PASSWORD: Final = "a test alone reads this"
_BCRYPT: Final = "$2b$05$2VH3sowwCjwo2jYD7OXc6.AVF92RIar7VTVBm8T5uSIHOvwJJLUXu"
_READY_SECONDS: Final = 30.0
_CERTIFICATE: Final = "registry"
_MANIFESTS: Final = ", ".join(f"application/vnd.oci.image.{kind}.v1+json" for kind in ("index", "manifest"))
_LINE: Final = re.compile(
    r'^(?P<client>\S+) .* "(?P<method>[A-Z]+) (?P<path>\S+) [^"]*" (?P<code>\d+) .* "(?P<agent>[^"]*)"$'
)


class Request(NamedTuple):
    """A line of the audit."""

    client: str
    """Address of who asked."""
    method: str
    path: str
    code: int
    agent: str
    """Program that asked, such as `containerd/v2.4.2`."""


class Registry(NamedTuple):
    """A registry that runs."""

    address: str
    """HOST:PORT"""
    folder: Path

    @property
    def authority(self) -> Path:
        """Return the certificate of the authority that the clients trust."""
        return self.folder / "ca.crt"

    @property
    def credentials(self) -> Path:
        """Return the file with the password, as docker, helm and image pull secrets have it."""
        return self.folder / "config.json"

    @property
    def environment(self) -> dict[str, str]:
        """Return variables by which oras, cosign and other programs in Go trust the registry and log in."""
        return {"SSL_CERT_FILE": str(self.authority), "DOCKER_CONFIG": str(self.folder)}

    def digest(self, repository: str, tag: str) -> str:
        """Return the digest of what a tag names. Raises OSError."""
        url = f"https://{self.address}/v2/{repository}/manifests/{tag}"
        headers = {"Accept": _MANIFESTS, "Authorization": f"Basic {_login()}"}
        request = urllib.request.Request(url, headers=headers, method="HEAD")
        trusting = ssl.create_default_context(cafile=self.authority)
        with urllib.request.urlopen(request, timeout=10, context=trusting) as answer:
            return str(answer.headers["Docker-Content-Digest"])

    def requests(self) -> list[Request]:
        """Return what was asked so far."""
        matches = map(_LINE.match, (self.folder / "audit.log").read_text().splitlines())
        return [
            Request(match["client"], match["method"], match["path"], int(match["code"]), match["agent"])
            for match in matches
            if match
        ]


@contextlib.contextmanager
def running(folder: Path, host: str = "127.0.0.1") -> Iterator[Registry]:
    """Run a registry that listens on one address of this machine, with all its files in a folder."""
    program = programs.program("registry")
    registry = Registry(f"{host}:{ports.free_port()}", folder)
    certificates.make_authority(folder, name="release-rehearsal")
    certificates.sign(folder, _CERTIFICATE, user=_CERTIFICATE, addresses=(host,))
    (folder / "htpasswd").write_text(f"{USER}:{_BCRYPT}\n")
    registry.credentials.write_text(json.dumps({"auths": {registry.address: {"auth": _login()}}}))
    configuration = {
        "version": "0.1",
        "storage": {"filesystem": {"rootdirectory": str(folder / "storage")}, "delete": {"enabled": True}},
        "auth": {"htpasswd": {"realm": "release", "path": str(folder / "htpasswd")}},
        "http": {
            "addr": registry.address,
            "tls": {
                kind: str(folder / f"{_CERTIFICATE}.{end}") for kind, end in (("certificate", "crt"), ("key", "key"))
            },
        },
    }
    (folder / "configuration.yaml").write_text(yaml.safe_dump(configuration))
    with (folder / "audit.log").open("w") as audit, (folder / "log").open("w") as log:
        process = subprocess.Popen([program, "serve", folder / "configuration.yaml"], stdout=audit, stderr=log)
    try:
        progress.wait_until(
            "registry ready", lambda: _answers(registry), _READY_SECONDS, otherwise=lambda: _give_up(folder)
        )
        yield registry
    finally:
        process.terminate()
        process.wait()


def _login() -> str:
    return base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()


def _answers(registry: Registry) -> bool:
    """Return whether it asks for the password."""
    trusting = ssl.create_default_context(cafile=registry.authority)
    try:
        urllib.request.urlopen(f"https://{registry.address}/v2/", timeout=2, context=trusting)
    except urllib.error.HTTPError as refused:
        return refused.code == 401
    except OSError:
        return False
    return False


def _give_up(folder: Path) -> None:
    raise ClusterProblem(f"the registry does not answer: {commands.last_errors((folder / 'log').read_text())}")
