"""Access to the cluster as one of its service accounts, with a token of its own, through kubectl."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import time
from collections.abc import Iterator
from pathlib import Path

from e2e.support import waiting
from e2e.support.names import OF_THE_SERVER, SUITE_NAMESPACE
from tools.localcluster.access import Cluster


def service_account(cluster: Cluster, name: str, folder: Path, *, pod: str | None = None) -> Cluster:
    """Return the cluster as a service account of the suite; with `pod` the token is bound to it, like a mounted one."""
    return account_of(cluster, name, SUITE_NAMESPACE, folder, pod=pod)


def account_of(cluster: Cluster, name: str, namespace: str, folder: Path, *, pod: str | None = None) -> Cluster:
    """Return the cluster as a service account of any namespace."""
    bound = ["--bound-object-kind=Pod", f"--bound-object-name={pod}"] if pod else []
    token = cluster.run("create", "token", name, "--namespace", namespace, *bound).strip()
    config = json.loads(cluster.run("config", "view", "--raw", "--minify", "--flatten", "--output=json"))
    config["users"] = [{"name": each["name"], "user": {"token": token}} for each in config["users"]]
    kubeconfig = folder / f"{name}-{pod or 'unbound'}.json"
    kubeconfig.write_text(json.dumps(config))
    return dataclasses.replace(cluster, kubeconfig=kubeconfig)


@contextlib.contextmanager
def without_policy(cluster: Cluster, policy: str) -> Iterator[None]:
    """Take an admission policy out of force, and put it back into force."""
    kind = "validatingadmissionpolicybinding"
    binding = cluster.get(kind, policy)
    binding["metadata"] = {key: value for key, value in binding["metadata"].items() if key not in OF_THE_SERVER}
    cluster.run("delete", kind, policy)
    try:
        yield
    finally:
        cluster.run("create", "--filename=-", stdin=json.dumps(binding))
        time.sleep(2)  # the apiserver reads its policies about every second


def until_allowed(what: str, cluster: Cluster, *words: str, stdin: str | None = None) -> None:
    """Wait until a request is let through: the apiserver takes about a second to notice that a policy is gone."""
    waiting.until(what, lambda: cluster.run(*words, stdin=stdin) or True, within_seconds=20)
