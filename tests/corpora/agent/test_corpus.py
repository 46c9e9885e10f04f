"""The agent publishes, for every recorded case, what it published when the corpus was frozen."""

import json

import pytest

from tests.corpora.agent import world

CASES = [json.loads(line) for line in world.CASES.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"].replace(" ", "-"))
def test_the_agent_publishes_what_it_did(case):
    expected = case.pop("gives")
    # The last digit of a sum depends on the vector instructions of the processor.
    expected["metrics"] = pytest.approx(expected["metrics"], rel=1e-12)
    assert world.play(case) == expected
