"""`make demo` ends well on this machine, quiet or busy, and Ctrl-C reports how to clean up.

The steps with their own limits are in test_first_ten_minutes.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from e2e.demo import fleet
from e2e.demo.steps import STEPS
from e2e.support.installation import Suite
from tools.localcluster import content_cache
from tools.localcluster.access import Cluster

COMMAND = (sys.executable, "-u", "-m", "e2e.demo")
FACTS = (
    fleet.STEP.title,
    *(step.title for step in STEPS),
    "Prod rises, Mid leaves",
    "p99 ms",
    "Load decides: an overloaded node gets no more pods",
    "cpu usage exceed threshold",
    "demo/by-load is Pending on fake-0",
)
END_SECONDS = 1500.0


@pytest.fixture
def clean(cluster: Cluster, suite: Suite) -> Iterator[None]:
    """Remove the demo's pods afterwards; the suite is removed or restored with its fixture."""
    if cluster.provider == "existing":
        pytest.skip("the demo loads its images onto the nodes, which an existing cluster does not allow")
    yield
    cluster.run("delete", "namespace", "demo", "--ignore-not-found", "--wait", timeout_seconds=180)
    cluster.run("delete", "deployment", "prod-web", "mid-worker", "--namespace=default", "--ignore-not-found")


def _accept_interrupts() -> None:
    """Undo an inherited SIG_IGN, with which shells start programs in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.usefixtures("clean")
@pytest.mark.timeout(END_SECONDS + 60)
def test_the_demo_ends_well() -> None:
    demo = subprocess.run(
        COMMAND, cwd=content_cache.REPOSITORY, capture_output=True, text=True, timeout=END_SECONDS, check=False
    )
    print(demo.stdout, demo.stderr)
    assert demo.returncode == 0, demo.stderr
    assert [fact for fact in FACTS if fact not in demo.stdout] == []


@pytest.mark.usefixtures("clean")
def test_an_interrupted_demo_reports_how_to_clean_up() -> None:
    with subprocess.Popen(
        COMMAND,
        cwd=content_cache.REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_accept_interrupts,  # noqa: PLW1509
    ) as demo:
        assert demo.stdout is not None
        while "Measure node" not in demo.stdout.readline():
            time.sleep(0.01)
        demo.send_signal(signal.SIGINT)
        _, errors = demo.communicate(timeout=60)
    assert demo.returncode == 130
    assert "the demo was interrupted" in errors
    assert "make cluster-down" in errors
