"""Restart the agent's DaemonSet, or change it for the time of a case."""

from __future__ import annotations

import contextlib
import copy
import datetime as dt
import json
from collections.abc import Callable, Iterator
from typing import Any

from e2e.support import waiting
from e2e.support.installation import Suite
from e2e.support.names import SUITE_NAMESPACE

DAEMON_SET = "koordlet"
ROLLOUT_SECONDS = 240  # node by node
_WHERE = ("--namespace", SUITE_NAMESPACE)

PodSpec = dict[str, Any]


def restart(suite: Suite) -> dt.datetime:
    """Restart the agent as `kubectl rollout restart` does, and return the time of the request."""
    requested_at = dt.datetime.now(dt.UTC)
    suite.cluster.run("rollout", "restart", f"daemonset/{DAEMON_SET}", *_WHERE)
    _wait(suite)
    return requested_at


@contextlib.contextmanager
def changed(suite: Suite, change: Callable[[PodSpec], None]) -> Iterator[None]:
    """Change the spec of the agent's pod, and restore it afterwards."""
    before = suite.cluster.get("daemonset", DAEMON_SET, *_WHERE)["spec"]["template"]["spec"]
    other = copy.deepcopy(before)
    change(other)
    _replace(suite, other)
    try:
        yield
    finally:
        _replace(suite, before)


@contextlib.contextmanager
def away(suite: Suite) -> Iterator[None]:
    """Remove the agent from all nodes, and restore it afterwards."""

    def nowhere(spec: PodSpec) -> None:
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), "koord-suite.io/no-such-node": "true"}

    with changed(suite, nowhere):
        waiting.until("the agent is gone", lambda: suite.pods(DAEMON_SET), lambda seen: not seen)
        yield


def _replace(suite: Suite, spec: PodSpec) -> None:
    patch = [{"op": "replace", "path": "/spec/template/spec", "value": spec}]
    suite.cluster.run("patch", "daemonset", DAEMON_SET, *_WHERE, "--type=json", f"--patch={json.dumps(patch)}")
    _wait(suite)


def _wait(suite: Suite) -> None:
    limit = f"--timeout={ROLLOUT_SECONDS}s"
    suite.cluster.run(
        "rollout", "status", f"daemonset/{DAEMON_SET}", *_WHERE, limit, timeout_seconds=ROLLOUT_SECONDS + 10
    )
