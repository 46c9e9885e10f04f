"""`koordctl status` of parts whose pods are not all there; the page Health shows the same."""

import datetime as dt

import pytest

from console.pages import health
from fleet import wire
from fleet.snapshot import Installation
from koordctl.cli import status

NOW = dt.datetime(2026, 11, 21, 10, tzinfo=dt.UTC)


def workload(wanted, there, ready):
    return wire.Workload(
        spec=wire.WorkloadSpec(replicas=wanted), status=wire.WorkloadStatus(ready_replicas=ready, replicas=there)
    )


@pytest.mark.parametrize(
    ("wanted", "there", "ready", "shown", "style", "word"),
    [
        (2, 2, 2, "2 of 2", "ok", "ready"),
        (2, 1, 1, "1 of 2", "warn", "degraded"),  # the other one cannot be created, such as for a quota
        (2, 3, 2, "2 of 3", "warn", "degraded"),  # in the middle of an upgrade
        (1, 0, 0, "0 of 1", "bad", "not ready"),
        (0, 0, 0, "0 of 0", "bad", "not ready"),
        (None, 1, 1, "1 of 1", "ok", "ready"),
    ],
)
def test_a_replica_that_could_not_be_created_is_missed(wanted, there, ready, shown, style, word):
    installed = Installation("koordinator-system", workloads={"koord-scheduler": workload(wanted, there, ready)})
    sign, *_, count, _, state = status._parts(installed).rows[2]
    assert (count, sign == "✔", state == "") == (shown, style == "ok", style == "ok")
    part = health._part(installed, "koord-scheduler", "scheduler", NOW)
    assert (part["ready"], part["style"], part["word"]) == (shown, style, word)
