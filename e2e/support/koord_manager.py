"""Koordinator's koord-manager and this one on lone API servers with Koordinator's CRDs: no webhooks, no election."""

from __future__ import annotations

from typing import Any, Final

import yaml

from e2e.support.names import SUITE_NAMESPACE
from tools.localcluster.apiserver_requests import Connection
from tools.localcluster.host import ports
from tools.localcluster.standalone_control_plane import ControlPlane
from tools.peers import programs

_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def crds() -> list[dict[str, Any]]:
    """Return the CRDs of the module."""
    files = sorted((programs.source() / "config" / "crd" / "bases").glob("*.yaml"))
    found = [document for file in files for document in yaml.safe_load_all(file.read_text()) if document]
    return [{**document, "status": {}} for document in found]


def install_crds(api: Connection, but: str = "") -> None:
    """Create the CRDs, but the one of a name."""
    for crd in crds():
        if crd["metadata"]["name"] != but:
            api.send("POST", _CRDS, crd)


def start(plane: ControlPlane, *flags: str) -> None:
    """Start it, with all controllers unless flags name some. It serves no probe without its webhooks."""
    metrics, health = ports.free_ports(2)
    words = [
        f"--kubeconfig={plane.kubeconfig}", "--enable-leader-election=false", "--feature-gates=WebhookFramework=false",
        f"--metrics-addr=127.0.0.1:{metrics}", f"--health-probe-addr=127.0.0.1:{health}", "--enable-pprof=false",
        f"--leader-election-namespace={SUITE_NAMESPACE}", f"--config-namespace={SUITE_NAMESPACE}", "--sync-period=0",
        "--logtostderr=true", *flags,
    ]  # fmt: skip
    environment = {"POD_NAMESPACE": SUITE_NAMESPACE, "KUBECONFIG": str(plane.kubeconfig)}
    plane.start("koord-manager", programs.program("koord-manager"), *words, **environment)


def start_this(plane: ControlPlane) -> None:
    """Start the manager of this project in its place, and wait until it is healthy."""
    port = ports.free_port()
    words = ("--lease-duration-seconds=4", "--renew-deadline-seconds=3", "--retry-period-seconds=0.5")
    address = (f"--kubeconfig={plane.kubeconfig}", "--http-address=127.0.0.1", f"--http-port={port}")
    running = plane.start_python("manager", "-m", "manager", "run", f"--namespace={SUITE_NAMESPACE}", *words, *address)
    plane.wait_for_page(running, port, "/healthz")
