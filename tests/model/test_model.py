"""Agent, manager and Mid guard together, with their real code: what has to hold under random users, tenants and faults.

MODEL_SEEDS=500 MODEL_STEPS=2000 pytest tests/model/test_model.py --timeout 7200     # for as long as wanted
"""

import os

import pytest

from tests.model import actions, run

pytestmark = pytest.mark.slow

SEEDS = int(os.environ.get("MODEL_SEEDS", "6"))
STEPS = int(os.environ.get("MODEL_STEPS", "500"))


def test_every_tenant_with_a_pod_that_may_go_is_served():
    steps = [("neighbours", 12, 5.0), *[("wait", 60.0)] * 50]
    assert not run.execute(steps, guarded=True, seed=0).violations


@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_offer_is_safe_whatever_happens(seed):
    steps = actions.drawn(seed, STEPS)
    guarded = seed % 2 == 0
    found = run.execute(steps, guarded=guarded, seed=seed).violations
    if found:
        fewer = run.shrunk(steps, guarded=guarded, seed=seed)
        pytest.fail(run.report(fewer, run.execute(fewer, guarded=guarded, seed=seed).violations or found))
