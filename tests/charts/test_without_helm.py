"""A test of the chart where there is no helm."""

import pytest

from tests.charts import chart


@pytest.mark.parametrize(("ci", "outcome"), [("true", pytest.fail.Exception), ("", pytest.skip.Exception)])
def test_without_helm_it_is_skipped_and_fails_in_ci(ci, outcome, monkeypatch):
    monkeypatch.setattr(chart, "helm", lambda: None)
    monkeypatch.setenv("CI", ci)
    with pytest.raises((pytest.fail.Exception, pytest.skip.Exception), match="no helm") as ended:
        chart.run_helm("version")
    assert ended.type is outcome
