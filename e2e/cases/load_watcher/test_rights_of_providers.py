"""Each provider with the service account that the chart renders for it: no request to the API server is forbidden.

No server of a provider runs here. What one needs of the API server it asks before it fails.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.support import chart_rendering, lone_scheduler, waiting
from e2e.support.lone_scheduler import LoneScheduler
from e2e.support.names import SUITE_NAMESPACE
from scheduler_plugin.load_watcher.providers import provider_spec
from scheduler_plugin.load_watcher.providers.registry import PROVIDERS
from tools.localcluster.host import ports
from tools.localcluster.standalone_control_plane import ControlPlane

KEYS: Mapping[str, Mapping[str, str]] = {
    "address": {"address": "http://127.0.0.1:9"},
    "org": {"org": "any"},
    "bucket": {"bucket": "any"},
    "token": {"tokenFile": "/etc/none"},
    "applicationKey": {"applicationKeyFile": "/etc/none"},
}
"""What a provider needs -> how it is written."""
WATCHER = "koord-load-watcher"
UNAUTHORIZED, FORBIDDEN, NOT_FOUND = 401, 403, 404

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with lone_scheduler.running(audited=True) as lone:
        lone.add_node("n0", used_percent=10)
        yield lone.plane


@pytest.fixture
def running(plane: ControlPlane) -> Iterator[contextlib.ExitStack]:
    """Begin with an empty audit log; end the programs."""
    plane.places.audit_log.write_text("")
    with contextlib.ExitStack() as stack:
        yield stack


def spec(name: str) -> dict[str, str]:
    keys = {"type": name}
    for needed in provider_spec.NEEDS[name]:
        keys |= KEYS[needed]
    return keys


def requests(plane: ControlPlane, account: str) -> Counter[tuple[str, str, int]]:
    """Return the requests of an account: verb, API group and resource, status."""
    user = f"system:serviceaccount:{SUITE_NAMESPACE}:{account}"
    seen: Counter[tuple[str, str, int]] = Counter()
    for line in plane.places.audit_log.read_text().splitlines():
        event: Mapping[str, Any] = json.loads(line)
        if event["user"].get("username") == user:
            what = event.get("objectRef", {})
            target = ".".join(filter(None, (what.get("resource"), what.get("apiGroup"))))
            seen[event["verb"], target, event["responseStatus"]["code"]] += 1
    return seen


def assert_nothing_is_forbidden(plane: ControlPlane, account: str, *, asks_metrics_server: bool) -> None:
    """Wait for the requests that belong to the provider, and see that none is forbidden."""
    readable = {"nodes", "nodemetrics.slo.koordinator.sh"}
    readable |= {"nodes.metrics.k8s.io"} if asks_metrics_server else set()
    waiting.until(
        f"requests of {account} for each of {sorted(readable)}",
        lambda: {target for _verb, target, _code in requests(plane, account)},
        lambda targets: targets >= readable,
        within_seconds=60,
    )
    seen = requests(plane, account)
    assert not [request for request in seen if request[2] in {UNAUTHORIZED, FORBIDDEN}], seen
    if asks_metrics_server:
        assert seen["list", "nodes.metrics.k8s.io", NOT_FOUND], seen  # allowed, and not installed


@pytest.mark.parametrize("name", list(PROVIDERS))
def test_the_scheduler_plugin(plane: ControlPlane, running: contextlib.ExitStack, name: str) -> None:
    args = {"TargetLoadPacking": {"metricProvider": spec(name)}}
    plugins = {"score": {"enabled": [{"name": "TargetLoadPacking"}]}}
    lone = LoneScheduler(plane, {"plugin": {"pluginArgs": args, "plugins": plugins}})
    running.callback(lone.api.close)
    running.callback(plane.stop, lone.plugin)
    lone.start_plugin()
    is_metrics_server = name == provider_spec.METRICS_SERVER
    assert_nothing_is_forbidden(plane, lone_scheduler.ACCOUNT, asks_metrics_server=is_metrics_server)


def test_the_standalone_load_watcher_with_all_of_them(
    plane: ControlPlane, running: contextlib.ExitStack, tmp_path: Path
) -> None:
    values = {"loadWatcher": {"enabled": True}}
    with contextlib.closing(plane.connect()) as api:
        chart_rendering.apply(api, *chart_rendering.rendered(plane.binaries, values, "load-watcher/rbac"))
    providers = tmp_path / "providers.yaml"
    providers.write_text(yaml.safe_dump([spec(name) for name in PROVIDERS]))
    plane.start_python(
        WATCHER,
        *("-m", "scheduler_plugin.load_watcher", f"--providers-file={providers}", "--http-address=127.0.0.1"),
        f"--kubeconfig={plane.account_kubeconfig(WATCHER, SUITE_NAMESPACE)}",
        f"--http-port={ports.free_port()}",
    )
    running.callback(plane.stop, WATCHER)
    assert_nothing_is_forbidden(plane, WATCHER, asks_metrics_server=True)
