"""The condition of sources names five of them, and the number of the others."""

import datetime as dt

import pytest

from koordlet.report import conditions
from koordlet.samples import NoData
from tests.koordlet.report.test_conditions import facts

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


@pytest.mark.parametrize(("count", "rest"), [(1, ""), (5, ""), (6, "; and 1 more"), (9, "; and 4 more")])
def test_five_sources_are_named_and_the_others_counted(count, rest):
    given = facts(no_data=[NoData("s", f"/p{number}", "gone") for number in range(count)])
    found = {each.type: each for each in conditions.evaluate(given, (), NOW, 1)}["SourceDegraded"]
    named = "; ".join(f"s /p{number}: gone" for number in range(min(count, 5)))
    assert found.message == named + rest
