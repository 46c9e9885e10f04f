"""A small run of `python -m tests.scheduler_plugin.extender.fuzz`."""

import itertools

import pytest

from tests.scheduler_plugin.extender import fuzz


@pytest.mark.slow
def test_every_request_gets_an_expected_status_and_the_extender_keeps_working():
    outcome = fuzz.fuzz(1500, seed=1)
    assert outcome.unexpected == []
    assert outcome.works_after
    assert {status for _kind, status in outcome.statuses} >= {0, 200, 400, 413}
    both = itertools.product(("valid", "damaged", "hostile"), fuzz.VERBS)
    assert {kind for kind, _status in outcome.statuses} >= {f"{kind} {verb}" for kind, verb in both}
