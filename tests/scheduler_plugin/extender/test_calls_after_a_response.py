"""Work of the dispatcher after the response of each verb."""

from http import HTTPStatus

import pytest

from scheduler_plugin.extender import dispatcher, metrics
from tests.scheduler_plugin.factories import NOW


class Recorder:
    """An extender that records its calls."""

    def __init__(self):
        self.calls = []

    def _verb(self, body, now):
        return b"{}"

    filter = prioritize = preempt = bind = _verb

    def reserve(self, now, monotonic):
        self.calls.append("reserve")

    def prepare(self):
        self.calls.append("prepare")

    def seal_record(self):
        self.calls.append("seal")


@pytest.mark.parametrize(
    ("path", "calls"),
    [
        ("/filter", ["reserve", "prepare"]),
        ("/prioritize", ["reserve", "seal"]),
        ("/preempt", []),
        ("/bind", []),
    ],
)
def test_only_filter_prepares_a_response_and_only_prioritize_seals_the_record(path, calls):
    extender = Recorder()
    counted = metrics.RequestMetrics(metrics.CollectorRegistry())
    dispatch = dispatcher.Dispatcher(extender, counted, list, lambda: NOW)
    response = dispatch("POST", path, b"{}")
    assert (response.status, extender.calls) == (HTTPStatus.OK, ["reserve"])
    extender.calls.clear()
    response.then()
    assert extender.calls == calls
