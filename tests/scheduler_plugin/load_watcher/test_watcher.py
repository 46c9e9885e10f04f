"""The loop, with providers that say what the test tells them to."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from scheduler_plugin.load_watcher import windows
from scheduler_plugin.load_watcher.analysis import AnomalyKind
from scheduler_plugin.load_watcher.database import Database
from scheduler_plugin.load_watcher.providers.provider import Fetched, ProviderFailed
from scheduler_plugin.load_watcher.records import Metric, NodeMetrics, Window
from scheduler_plugin.load_watcher.watcher import Watcher
from scheduler_plugin.load_watcher.windows import Windows

NOW = 1_700_000_000.0
AGE = 300.0


class Scripted:
    """A provider whose next answers are given."""

    def __init__(self, name: str, *answers: Fetched | ProviderFailed) -> None:
        self.name = name
        self.asked: list[str] = []
        self.closed = False
        self._answers = list(answers)

    async def check(self) -> Sequence[str]:
        return ()

    async def fetch(self, window: Window) -> Fetched:
        self.asked.append(window.duration)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, ProviderFailed):
            raise answer
        return answer

    async def is_healthy(self) -> bool:
        return not isinstance(self._answers[0], ProviderFailed)

    async def close(self) -> None:
        self.closed = True


def nodes(**cpu: float) -> Mapping[str, NodeMetrics]:
    return {name: NodeMetrics([Metric(type="CPU", operator="AVG", value=value)]) for name, value in cpu.items()}


DOWN = ProviderFailed("http://metrics:9090 does not answer")


def watcher(*providers: Scripted, kept: Windows | None = None, file: Path | None = None) -> tuple[Watcher, Windows]:
    kept = kept or Windows(AGE)
    database = Database(file, 3600) if file else None
    return Watcher(providers, kept, clock=lambda: NOW, expected=lambda: ("a", "b"), database=database), kept


async def test_a_refresh_answers_the_window_it_was_asked_for() -> None:
    watching, kept = watcher(Scripted("NodeMetric", Fetched(nodes(a=20.0, b=30.0))))
    refreshed = await watching.refresh("10m")
    newest = kept.latest("10m", NOW)
    assert refreshed.snapshot == newest
    assert (newest.source, newest.window) == ("NodeMetric", Window("10m", int(NOW) - 600, int(NOW)))
    assert {name: node.metrics[0].value for name, node in newest.data.nodes.items()} == {"a": 20.0, "b": 30.0}
    assert not refreshed.found


async def test_a_round_fetches_every_window_longest_first() -> None:
    provider = Scripted("NodeMetric", Fetched(nodes(a=20.0)))
    watching, _kept = watcher(provider)
    running = asyncio.create_task(watching.run(interval_seconds=3600))
    while len(provider.asked) < 3:
        await asyncio.sleep(0)
    running.cancel()
    assert provider.asked == ["15m", "10m", "5m"]


async def test_b2_when_nothing_comes_what_is_known_stays_and_keeps_its_own_time() -> None:
    watching, kept = watcher(Scripted("Prometheus", Fetched(nodes(a=20.0)), DOWN))
    await watching.refresh("15m")
    refreshed = await watching.refresh("15m")
    assert refreshed.snapshot is None
    assert refreshed.failures == {"Prometheus": "http://metrics:9090 does not answer"}
    assert len(kept.kept("15m")) == 1
    with pytest.raises(windows.NoMetrics):
        kept.latest("15m", NOW + AGE + 1)


async def test_b4_a_part_that_failed_is_told_and_the_rest_is_kept() -> None:
    answer = Fetched(nodes(a=20.0), ["the query for memory failed"])
    refreshed = await watcher(Scripted("Prometheus", answer))[0].refresh("15m")
    assert refreshed.problems == ["the query for memory failed"]
    assert refreshed.snapshot is not None


async def test_b3_a_broken_value_takes_neither_its_node_nor_the_others_away() -> None:
    broken = {
        "a": NodeMetrics(
            [Metric(type="CPU", operator="AVG", value=math.nan), Metric(type="Memory", operator="AVG", value=7.0)]
        )
    }
    watching, kept = watcher(Scripted("Prometheus", Fetched({**nodes(b=30.0), **broken})))
    refreshed = await watching.refresh("15m")
    assert [found.finding for found in refreshed.found] == [AnomalyKind.NOT_A_NUMBER]
    found = kept.latest("15m", NOW).data.nodes
    assert [metric.type for metric in found["a"].metrics] == ["Memory"]
    assert [metric.value for metric in found["b"].metrics] == [30.0]


async def test_g7_one_provider_answers_for_another_that_is_down() -> None:
    watching, kept = watcher(Scripted("NodeMetric", DOWN), Scripted("Prometheus", Fetched(nodes(a=20.0, b=1.0))))
    refreshed = await watching.refresh("15m")
    assert refreshed.failures.keys() == {"NodeMetric"}
    assert kept.latest("15m", NOW).source == "Prometheus"
    assert await watching.is_healthy()


async def test_g8_a_source_that_stands_still_for_ten_minutes_is_not_believed_until_it_moves() -> None:
    answers = [Fetched(nodes(a=20.0, b=20.0))] * 21 + [Fetched(nodes(a=20.0, b=21.0))]
    seconds = [NOW]
    watching = Watcher([Scripted("Prometheus", *answers)], Windows(AGE), clock=lambda: seconds[0])
    found = []
    for _round in range(22):
        found.append({each.node for each in (await watching.refresh("5m")).found})
        seconds[0] += 30.0
    assert found == [set()] * 20 + [{"a", "b"}, {"a"}]


async def test_g4_a_node_whose_agent_died_leaves_all_windows_once_the_shortest_has_lost_it() -> None:
    both, one = Fetched(nodes(a=20.0, b=30.0)), Fetched(nodes(a=20.0))
    watching, kept = watcher(Scripted("Prometheus", both, both, both, one, both))
    for duration in ("15m", "10m", "5m", "5m", "15m"):
        refreshed = await watching.refresh(duration)
    assert {found.finding for found in refreshed.found} == {AnomalyKind.SILENT, AnomalyKind.MISSING}
    assert kept.latest("15m", NOW).data.nodes.keys() == {"a"}


async def test_b2_what_another_watcher_measured_minutes_ago_does_not_become_fresh_by_asking() -> None:
    old = Fetched(nodes(a=20.0), end=int(NOW) - 200)
    watching, kept = watcher(Scripted("LoadWatcher", old))
    await watching.refresh("15m")
    assert kept.latest("15m", NOW).window == Window("15m", int(NOW) - 1100, int(NOW) - 200)
    with pytest.raises(windows.NoMetrics, match="301 s old"):
        kept.latest("15m", NOW + 101)


async def test_a_clock_that_is_ahead_elsewhere_makes_nothing_younger_than_now() -> None:
    watching, kept = watcher(Scripted("LoadWatcher", Fetched(nodes(a=20.0), end=int(NOW) + 500)))
    await watching.refresh("15m")
    assert kept.latest("15m", NOW).window.end == NOW


async def test_g1_after_a_crash_windows_answer_before_any_provider_does(tmp_path: Path) -> None:
    file = tmp_path / "watcher.sqlite"
    before, kept = watcher(Scripted("NodeMetric", Fetched(nodes(a=20.0))), file=file)
    before.recall(AGE)
    await before.refresh("15m")
    after, recalled = watcher(Scripted("NodeMetric", DOWN), file=file)
    assert after.recall(AGE) == 1
    assert recalled.latest("15m", NOW) == kept.latest("15m", NOW)
    await before.close()
    await after.close()


async def test_without_a_usable_file_it_runs_from_memory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    provider = Scripted("NodeMetric", Fetched(nodes(a=20.0)))
    watching, kept = watcher(provider, file=tmp_path / "gone" / "watcher.sqlite")
    assert watching.recall(AGE) == 0
    assert "kept in memory only" in caplog.text
    await watching.refresh("15m")
    assert kept.latest("15m", NOW)
    await watching.close()
    assert provider.closed


class Unforeseen(Scripted):
    """Fails as nobody thought it would."""

    async def check(self) -> Sequence[str]:
        raise OverflowError("connect(): port must be 0-65535.")

    async def fetch(self, window: Window) -> Fetched:
        raise OverflowError(window.duration)

    async def is_healthy(self) -> bool:
        raise OverflowError


async def test_a_provider_that_fails_in_an_unforeseen_way_costs_its_own_part_and_not_the_process() -> None:
    both, kept = watcher(Unforeseen("odd"), Scripted("good", Fetched(nodes(a=20.0, b=30.0))))
    await both.check()
    refreshed = await both.refresh("15m")
    assert refreshed.failures == {"odd": "not foreseen: OverflowError('15m')"}
    assert set(kept.latest("15m", NOW).data.nodes) == {"a", "b"}
    assert await both.is_healthy()
    assert not await watcher(Unforeseen("odd"))[0].is_healthy()


class Hanging(Scripted):
    """A provider whose server takes every request and answers none."""

    async def fetch(self, window: Window) -> Fetched:
        await asyncio.Event().wait()
        raise AssertionError(window)


async def test_a_provider_that_hangs_does_not_hold_up_the_others_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler_plugin.load_watcher.watcher._LONGEST_FETCH_SECONDS", 0.01)
    both, kept = watcher(Hanging("hung"), Scripted("good", Fetched(nodes(a=20.0, b=30.0))))
    refreshed = await both.refresh("15m")
    assert refreshed.failures == {"hung": "a window was not whole within 0.01 s"}
    assert set(kept.latest("15m", NOW).data.nodes) == {"a", "b"}
