"""`koordctl console` as a user runs it, also with a kubeconfig that leads to another state than a fleet.

The states are real: an apiserver that is suspended, one that is not there, users with few rights.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import yaml
from playwright.sync_api import Browser

from e2e.console import browser
from e2e.support.apiserver_tcp_proxy import FlakyApiserverProxy
from e2e.support.lone_manager import LoneManager
from tools.localcluster.content_cache import REPOSITORY
from tools.localcluster.host import ports

_URL = re.compile(r"http://127\.0\.0\.1:\d+/\?token=\S+")


@contextlib.contextmanager
def console(kubeconfig: Path, *flags: str) -> Iterator[str]:
    """Run `koordctl console`; yield the address that it prints."""
    words = [sys.executable, "-m", "koordctl", "console", "--no-browser", "--kubeconfig", str(kubeconfig), *flags]
    process = subprocess.Popen(words, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert _URL.fullmatch(address), address
        yield address
    finally:
        process.terminate()
        process.communicate(timeout=60)


def entered(opened: Browser, address: str, theme: str) -> tuple[browser.Watched, str]:
    """Open the address in a context with a theme; return it and the address without the token."""
    watched = browser.Watched(opened, theme)
    watched.page.goto(address)
    watched.page.wait_for_selector("main")
    return watched, address.partition("/?")[0]


@contextlib.contextmanager
def silent(lone: LoneManager) -> Iterator[tuple[str, Callable[[], None]]]:
    """Run a console whose apiserver is suspended; yield its address, and a function that resumes the apiserver."""
    places, apiserver = lone.plane.places, lone.plane.process("kube-apiserver").process
    kubeconfig = Path(lone.kubeconfig())
    proxy = FlakyApiserverProxy(places.addresses.apiserver_port, places.certificates / "ca.crt")
    apiserver.suspend()
    try:
        with console(_elsewhere(kubeconfig, proxy.url), "--request-timeout=600") as address:
            yield address, apiserver.resume
    finally:
        apiserver.resume()
        proxy.close()


@contextlib.contextmanager
def unreachable(kubeconfig: Path) -> Iterator[str]:
    """Run a console whose apiserver is not there."""
    with console(_elsewhere(kubeconfig, f"https://127.0.0.1:{ports.free_port()}")) as address:
        yield address


@contextlib.contextmanager
def of_user(lone: LoneManager, name: str, *rules: dict[str, list[str]]) -> Iterator[str]:
    """Run a console of a service account with these rights in the whole cluster."""
    path = "/api/v1/namespaces/default/serviceaccounts"
    lone.api.send("POST", path, {"metadata": {"name": name}})
    subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
    version = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    role = {**version, "kind": "ClusterRole", "metadata": {"name": name}}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    bound = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
    lone.create({**role, "rules": list(rules)}, {**version, "kind": "ClusterRoleBinding", **bound})
    with console(Path(lone.kubeconfig(name, namespace="default"))) as address:
        yield address


def _elsewhere(kubeconfig: Path, server: str) -> Path:
    """Write a copy of a kubeconfig with another address of the apiserver."""
    document = yaml.safe_load(kubeconfig.read_text())
    document["clusters"][0]["cluster"]["server"] = server
    copy = kubeconfig.with_name(f"{kubeconfig.name}-elsewhere")
    copy.write_text(yaml.safe_dump(document))
    return copy
