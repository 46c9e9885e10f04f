"""A step of Prod's load lowers the CPU limit of a Mid pod in the kernel within 10 s, and it rises again in steps.

The whole way up, and what survives in between, are in `test_mid_suppression_lasts.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.support import mid_suppression, waiting
from e2e.support.cluster_client import ClusterClient
from e2e.support.installation import Suite
from e2e.support.mid_suppression import MID_MILLIS, Stage

DOWN_SECONDS = 10
CALM_SECONDS = 30

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("shell_in_node")]


@pytest.fixture(scope="module")
def stage(cluster_client: ClusterClient, suite: Suite, node: str, namespace: str) -> Iterator[Stage]:
    with mid_suppression.staged(cluster_client, suite, node, namespace) as made:
        yield made


def test_down_within_ten_seconds_up_after_calm_and_restored_by_the_upgrade_that_ends_suppression(stage: Stage) -> None:
    assert stage.quota_millis() == MID_MILLIS
    with stage.step_of_prod() as begin:
        down_at = stage.until_quota("the quota is lower", lambda seen: seen < MID_MILLIS, within_seconds=60)
        passed_at = stage.load.passed(stage.threshold_percent, begin)
        print(f"threshold {stage.threshold_percent} %, lower {down_at - passed_at:.1f} s after usage passed it")
        assert down_at - passed_at <= DOWN_SECONDS
        lowered = waiting.until("limit and quota agree", stage.quota_millis, lambda seen: seen == stage.limit_millis())
        assert 10 <= lowered < MID_MILLIS
    waiting.until(
        "the agent counts the pod", lambda: stage.suite.agent_metric("koordlet_suppression_lowered_pods"),
        lambda seen: seen == 1, within_seconds=10,
    )  # fmt: skip
    (status,) = stage.pod()["status"]["containerStatuses"]
    assert status["restartCount"] == 0

    before = stage.load.percents(0, 1.0)[-1][0]
    up_at = stage.until_quota("the quota is higher", lambda seen: seen > lowered, within_seconds=240)
    assert stage.quota_millis() <= lowered + MID_MILLIS // 10, "one step is a tenth of Mid CPU"
    assert up_at - before >= CALM_SECONDS - 2
    assert stage.limit_millis() < MID_MILLIS

    stage.suite.install()
    assert stage.limit_millis() == MID_MILLIS
    stage.until_quota("the kernel has it too", lambda seen: seen == MID_MILLIS, within_seconds=30)
