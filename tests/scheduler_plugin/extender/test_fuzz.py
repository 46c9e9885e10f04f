"""A few of the requests that `python -m tests.scheduler_plugin.extender.fuzz` sends by the hundred thousand."""

from tests.scheduler_plugin.extender import fuzz


def test_no_request_is_answered_worse_than_it_deserves_and_the_extender_lives_on():
    outcome = fuzz.fuzz(1500, seed=1)
    assert outcome.undeserved == []
    assert outcome.works_after
    assert {status for _kind, status in outcome.answered} >= {0, 200, 400, 413}
