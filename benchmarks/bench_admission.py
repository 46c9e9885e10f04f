"""Latency of the admission webhook for Mid pods, compared with a webhook beside it that does nothing.

Both are Python processes with TLS that the same client sends the same reviews, one to each in turns, over one kept
connection each, as the API server does. The one that does nothing is aiohttp, the library under kopf, with a fixed
answer.

python -m benchmarks.bench_admission
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import math
import pathlib
import ssl
import time
from typing import Any

import aiohttp.web
import numpy as np

from tools.localcluster import certificates, standalone_control_plane
from tools.localcluster.host import ports
from tools.localcluster.standalone_control_plane import ControlPlane

NAMESPACE, CONFIGURATION = "koordinator-system", "koord-suite-mid-limits"
WARM_UP = 200


def review(number: int, containers: int) -> bytes:
    """Return the review of a new Mid pod of some 3 kB and 1 kB for each container."""
    amounts = {"cpu": f"{100 + number % 400}m", "memory": "256Mi"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"mid-{number}", "namespace": "jobs", "annotations": {"filler": "x" * 2000}},
        "spec": {
            "priority": 7000,
            "priorityClassName": "koord-mid",
            "schedulerName": "default-scheduler",
            "containers": [
                {
                    "name": f"c{index}",
                    "image": "registry.example/team/worker:1.2.3",
                    "env": [{"name": f"VARIABLE_{each}", "value": "some value"} for each in range(20)],
                    "resources": {"requests": amounts, "limits": amounts},
                }
                for index in range(containers)
            ],
        },
    }
    request = {
        "uid": f"uid-{number}",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "CREATE",
        "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller"},
        "object": pod,
        "dryRun": False,
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


class Client:
    """One kept connection to a webhook."""

    def __init__(self, port: int, path: str) -> None:
        trust = ssl.create_default_context()
        trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
        self._http = http.client.HTTPSConnection("127.0.0.1", port, context=trust, timeout=10)
        self._path = path

    def milliseconds(self, body: bytes) -> float:
        """Send a review and return the time until the whole answer."""
        begin = time.perf_counter()
        self._http.request("POST", self._path, body, {"Content-Type": "application/json"})
        answer = json.loads(self._http.getresponse().read())
        assert answer["response"]["allowed"] is True
        return (time.perf_counter() - begin) * 1000


def serve_nothing(port: int, folder: pathlib.Path) -> None:
    """Answer every review with the same text."""

    async def allow(request: aiohttp.web.Request) -> aiohttp.web.Response:
        uid = json.loads(await request.text())["request"]["uid"]
        return aiohttp.web.json_response({"response": {"uid": uid, "allowed": True}})

    app = aiohttp.web.Application()
    app.add_routes([aiohttp.web.post("/", allow)])
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "nothing.crt", folder / "nothing.key")
    aiohttp.web.run_app(app, host="127.0.0.1", port=port, ssl_context=context, print=None, access_log=None)


def start(plane: ControlPlane) -> dict[str, Client]:
    """Start both webhooks."""
    port, http_port, other = ports.free_ports(3)
    with contextlib.closing(plane.connect()) as api:
        api.send("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        secret = {"metadata": {"name": "koord-admission-certificate"}}
        api.send("POST", f"/api/v1/namespaces/{NAMESPACE}/secrets", secret)
        path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
        api.send("POST", path, {"metadata": {"name": CONFIGURATION}, "webhooks": []})
    folder = plane.places.state / "admission"
    plane.start_python(
        "admission", "-m", "manager", "serve-admission", f"--kubeconfig={plane.kubeconfig}", f"--port={port}",
        f"--http-port={http_port}", "--http-address=127.0.0.1", f"--certificate-dir={folder}",
        "--scheduler-name=koord-scheduler",
    )  # fmt: skip
    certificates.sign(plane.places.certificates, "nothing", user="nothing", addresses=("127.0.0.1",))
    nothing = ("-m", "benchmarks.bench_admission", "--serve-nothing", other, "--folder", plane.places.certificates)
    plane.start_python("nothing", *nothing)
    plane.wait_for_page(plane.process("admission"), http_port, "/readyz")
    return {"nothing": Client(other, "/"), "webhook": Client(port, "/mid-limits")}


def until_served(client: Client, body: bytes) -> None:
    """Wait until a server accepts connections."""
    for _ in range(100):
        with contextlib.suppress(OSError):
            client.milliseconds(body)
            return
        time.sleep(0.1)
    raise SystemExit("the webhook does not answer")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--reviews", type=int, default=500, help="of each webhook in a round (default: 500)")
    parser.add_argument("--containers", type=int, default=2)
    parser.add_argument("--serve-nothing", type=int, metavar="PORT", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve_nothing:
        serve_nothing(options.serve_nothing, options.folder)
        return
    with standalone_control_plane.running() as plane:
        clients = start(plane)
        bodies = [review(number, options.containers) for number in range(options.reviews)]
        for client in clients.values():
            until_served(client, bodies[0])
            for body in bodies[:WARM_UP]:
                client.milliseconds(body)
        rounds: dict[str, list[Any]] = {name: [] for name in clients}
        for _ in range(options.rounds):
            pairs = [[client.milliseconds(body) for client in clients.values()] for body in bodies]
            for name, each in zip(clients, zip(*pairs, strict=True), strict=True):
                rounds[name].append(each)
        rss = plane.process("admission").rss_mebibytes()
    print(
        f"{options.rounds} rounds of {options.reviews} reviews, {len(bodies[0])} bytes; milliseconds, medians of rounds"
    )
    of = {name: np.percentile(np.array(each), (50, 99), axis=1) for name, each in rounds.items()}
    for name, (p50, p99) in of.items():
        print(f"{name:8}  p50 {np.median(p50):6.2f}  p99 {np.median(p99):6.2f}  ({p99.min():.2f} to {p99.max():.2f})")
    ratios = of["webhook"] / of["nothing"]
    print(f"ratio     p50 {np.median(ratios[0]):6.2f}  p99 {np.median(ratios[1]):6.2f}")
    print(
        f"RSS of the webhook {rss:.0f} MiB; {math.floor(1000 / np.median(of['webhook'][0]))} pods/s on one connection"
    )


if __name__ == "__main__":
    main()
