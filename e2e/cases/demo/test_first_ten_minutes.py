"""The first ten minutes on a real cluster: each step has its result within its time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.demo import terminal
from e2e.demo.console import Console
from e2e.demo.steps import STEPS, Step
from e2e.demo.terminal import Terminal
from e2e.demo.walkthrough import Walkthrough
from e2e.support import waiting
from e2e.support.cluster_client import ClusterClient
from e2e.support.installation import Suite
from e2e.support.names import SUITE_NAMESPACE
from tools.localcluster.access import Cluster

pytestmark = [pytest.mark.long, pytest.mark.timeout(1500)]


@pytest.fixture(scope="module")
def console(
    cluster: Cluster, cluster_client: ClusterClient, suite: Suite, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Console]:
    """Begin without an installation, as a newcomer does; install the suite of the other cases at the end."""
    if cluster.provider == "existing":
        pytest.skip("the images are loaded onto the nodes, which an existing cluster does not allow")

    def gone() -> bool:
        return cluster_client.find("Namespace", SUITE_NAMESPACE) is None

    suite.uninstall()
    waiting.until("the namespace is gone", gone, within_seconds=120)
    folder = tmp_path_factory.mktemp("ten-minutes")
    made = Console(Terminal(folder, terminal.environment(cluster.environment)))
    walkthrough = Walkthrough(made, cluster, folder, suite.images)
    walkthrough.prepare()
    yield made
    walkthrough.clean()
    cluster.run("delete", "namespace", SUITE_NAMESPACE, "--wait", timeout_seconds=180)
    suite.install()


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.title)
def test_a_step_has_its_result_in_its_time(console: Console, step: Step) -> None:
    console.perform(step)
