"""Every command for three identities on a real API server: administrator, the viewer of the chart, stranger.

Viewer and stranger are service accounts with tokens; the viewer is bound by the value `viewer.subjects` of the chart.
"""

from __future__ import annotations

import contextlib
import http.cookiejar
import io
import json
import re
import shlex
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.support import chart_rendering, koordctl_rows, waiting
from e2e.support.koordctl_rows import ROWS, Ended, Row
from koordctl import __main__ as koordctl
from tools.localcluster import content_cache

PLACE = "default"
READS = [row for row in ROWS if row.reads]
FORBIDDEN = re.compile(r"403 Forbidden.*cannot (?:get|list|watch|create|patch) resource \"(?P<resource>\w+)\"")
pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


Call = Callable[[str, Row], Ended]


def forbidden(ended: Ended) -> set[str]:
    """Return the resources that the outputs name as forbidden."""
    return set(FORBIDDEN.findall(ended.out + ended.err))


@pytest.fixture(scope="module")
def kubeconfigs() -> Iterator[dict[str, str]]:
    """Return the kubeconfig of each identity."""
    with koordctl_rows.running() as lone:
        for name in ("viewer", "stranger", "tenant"):
            metadata = {"name": name, "namespace": PLACE}
            lone.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
        subject = {"kind": "ServiceAccount", "name": "viewer", "namespace": PLACE}
        lone.create(*chart_rendering.rendered(lone.plane.binaries, {"viewer": {"subjects": [subject]}}, "viewer-roles"))
        lone.create(*_bindings_of_tenant())
        of_accounts = {name: lone.kubeconfig(name, PLACE) for name in ("viewer", "stranger", "tenant")}
        yield {"admin": str(lone.plane.kubeconfig), **of_accounts}


def _bindings_of_tenant() -> Iterator[dict[str, Any]]:
    """Yield the bindings to koord-tenant and, in its namespace, to the rules of `view`, which no controller sums up."""
    for kind, role, place in (
        ("ClusterRoleBinding", "koord-tenant", {}),
        ("RoleBinding", "system:aggregate-to-view", {"namespace": "shop"}),
    ):
        yield {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": "tenant", **place},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": "tenant", "namespace": PLACE}],
        }


@pytest.fixture
def call(kubeconfigs: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Return a function that runs a row as an identity, in a folder with the files of the rows."""
    koordctl_rows.write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["koordctl"])
    monkeypatch.setattr("sys.stdin", io.StringIO())

    def run(identity: str, row: Row) -> Ended:
        words = shlex.split(row.line.replace("BUNDLE", f"{identity}.tgz"))
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = koordctl.main([*words, f"--kubeconfig={kubeconfigs[identity]}"])
        return Ended(code, out.getvalue(), err.getvalue())

    return run


@pytest.mark.parametrize("row", READS, ids=lambda row: row.line)
def test_the_exit_code_and_the_right_that_is_named(row: Row, call: Call) -> None:
    admin, viewer, stranger = (call(each, row) for each in ("admin", "viewer", "stranger"))
    assert (admin.code, viewer.code, stranger.code) == (row.code, row.viewer, row.stranger), (admin, viewer, stranger)
    assert not forbidden(admin)
    # `estimate` is for before an installation: the role of the chart has no right to read metrics-server
    assert not forbidden(viewer) or row.viewer == 3 or row.line.startswith("estimate")
    if row.stranger == 3:
        assert stranger.out == ""
        assert row.lacks in forbidden(stranger), stranger.err
    else:
        assert row.lacks in stranger.out + stranger.err
    if row.viewer == 3:
        assert row.lacks in forbidden(viewer), viewer.err


def test_a_tenant_sees_what_is_free_and_its_own_pods_and_no_other_namespace(call: Call) -> None:
    shop = call("tenant", Row("my -n shop", 0))
    assert (shop.code, shop.err) == (0, "")
    assert "at most 4 cores and 16.0 GiB on one node (n2)" in shop.out
    assert "mid-1  runs" in shop.out
    other = call("tenant", Row("my -n kube-system", 0))
    assert "mid-1" not in other.out
    assert other.err.startswith("not read: namespaces, pods, events: ")
    assert len(other.err.splitlines()) == 1
    assert call("tenant", Row("top pods", 3)).code == 3


def test_the_viewer_lacks_no_right_that_check_wants(call: Call) -> None:
    ended = call("viewer", Row("check -o json", 1))
    rights = next(each for each in json.loads(ended.out)["checks"] if each["code"] == "Permissions")
    assert rights["verdict"] == "passed", rights


def test_a_bundle_of_stranger_is_not_left_behind(call: Call, tmp_path: Path) -> None:
    row = next(row for row in ROWS if row.line.startswith("bundle"))
    for identity in ("viewer", "stranger"):
        call(identity, row)
    assert sorted(path.name for path in tmp_path.glob("*.tgz")) == ["viewer.tgz"]


@pytest.mark.parametrize(("identity", "is_forbidden"), [("admin", False), ("viewer", False), ("stranger", True)])
def test_the_console_names_what_its_caller_may_not_read(
    kubeconfigs: dict[str, str], identity: str, *, is_forbidden: bool
) -> None:
    words = ["console", "--no-browser", f"--kubeconfig={kubeconfigs[identity]}"]
    argv = [sys.executable, "-um", "koordctl", *words]
    with subprocess.Popen(argv, cwd=content_cache.REPOSITORY, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        url = program.stdout.readline().strip()
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
        browser.open(url, timeout=30).read()

        def page() -> str:
            return str(browser.open(url.partition("?")[0], timeout=30).read().decode())

        try:
            wanted = "nodes is forbidden" if is_forbidden else koordctl_rows.NODES[0]
            shown = waiting.until("the page has read the cluster", page, lambda text: wanted in text)
        finally:
            program.send_signal(signal.SIGINT)
            program.wait(60)
    assert ("is forbidden" in shown) is is_forbidden
