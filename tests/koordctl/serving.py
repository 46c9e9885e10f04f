"""Serve the objects of a small cluster on loopback, with a kubeconfig for it."""

import asyncio
import contextlib
import threading

import yaml

from tests.fakes import apiserver
from tests.fleet import cluster

METRICS = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"
SUITE = "koordinator-system"
KNOWN = {
    "/api/v1/nodes": "nodes",
    METRICS: "metrics",
    "/api/v1/pods": "pods",
    "/api/v1/namespaces/shop/pods": "pods",
    "/version": "version",
    f"/apis/apps/v1/namespaces/{SUITE}/daemonsets?app.kubernetes.io/name=koordlet": "agent",
    f"/apis/apps/v1/namespaces/{SUITE}/deployments?app.kubernetes.io/name=koord-manager": "manager",
    f"/apis/apps/v1/namespaces/{SUITE}/deployments?app.kubernetes.io/name=koord-scheduler": "scheduler",
    "/api/v1/namespaces": "namespaces",
    f"/apis/coordination.k8s.io/v1/namespaces/{SUITE}/leases/koord-manager": "lease",
    f"/api/v1/namespaces/{SUITE}/configmaps/slo-controller-config": "config",
    f"/api/v1/namespaces/{SUITE}/configmaps/koord-manager-last-good-config": "stored",
}


@contextlib.contextmanager
def kubeconfig_of(tmp_path, **routes):
    """Serve objects by path, or by the names of `KNOWN`, a list of them in turn; a missing known path is forbidden."""
    started, stop, url = threading.Event(), None, ""

    async def serve():
        nonlocal stop, url
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        async with apiserver.running() as server:
            for path, name in (KNOWN | {path: path for path in routes if path.startswith("/")}).items():
                given = routes.get(name)
                for each in given if isinstance(given, list) else [given]:
                    answer = each if isinstance(each, tuple) else (each, 200)
                    server.on("GET", path, apiserver.Answer(*(answer if each else (cluster.forbidden(path), 403))))
            url = server.url
            started.loop = loop
            started.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    started.wait(10)
    file = tmp_path / "kubeconfig"
    file.write_text(
        yaml.safe_dump(
            {
                "clusters": [{"name": "c", "cluster": {"server": url}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "users": [{"name": "u", "user": {"token": "t"}}],
                "current-context": "x",
            }
        )
    )
    try:
        yield file
    finally:
        started.loop.call_soon_threadsafe(stop.set)
        thread.join(10)


def healthy(**changes):
    full = {
        "nodes": cluster.listing(cluster.node(annotations=cluster.mid_status())),
        "metrics": cluster.listing(cluster.metric(pods=[cluster.usage_of()])),
        "pods": cluster.listing(cluster.pod()),
        "version": {"gitVersion": "v1.34.4"},
        "agent": cluster.installed("koordlet"),
        "manager": cluster.installed("koord-manager"),
        "scheduler": cluster.installed("koord-scheduler"),
        "lease": {"metadata": {"name": "koord-manager"}, "spec": {"holderIdentity": "koord-manager-1"}},
        "config": {"metadata": {"name": "slo-controller-config"}, "data": {"colocation-config": '{"enable": true}'}},
    }
    return {name: value for name, value in (full | changes).items() if value is not None}
