"""The table over time of a long simulation."""

import numpy as np

from scheduler_plugin.simulation import outcome, scenario
from scheduler_plugin.simulation.replay import Replay

THOUSAND_HOURS = 3_600_000


def test_the_lines_over_time_begin_at_their_hour():
    cluster = scenario.from_series(
        node_count=1,
        node_cpu_millis=1000,
        node_memory_bytes=2**30,
        cpu_millis=[np.array([900.0] * 6 + [0.0] * 6)],
        request_cpu_millis=[500],
        request_memory_bytes=[2**20],
        step_seconds=THOUSAND_HOURS,
        steps=12,
    )
    lines = outcome.text({"stock": Replay(cluster).run()}).splitlines()[-13:]
    assert lines[0].split() == ["hot", "nodes", "(>", "80", "%),", "mean", "stock"]
    hot = [1] * 6 + [0] * 6
    assert [line.split() for line in lines[1:]] == [
        ["from", f"{1000 * index}.0", "h", f"{count}.00"] for index, count in enumerate(hot)
    ]
