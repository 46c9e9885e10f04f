"""Tests of the loop with scripted providers."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pytest

from scheduler_plugin.load_watcher import records
from scheduler_plugin.load_watcher import watcher as watcher_module
from scheduler_plugin.load_watcher.analysis import AnomalyKind
from scheduler_plugin.load_watcher.database import Database
from scheduler_plugin.load_watcher.providers.provider import Fetched, ProviderFailed
from scheduler_plugin.load_watcher.records import DURATIONS_SECONDS, Metric, NodeMetrics, Window, Windows
from scheduler_plugin.load_watcher.watcher import Watcher

NOW = 1_700_000_000.0
AGE = 300.0


class Scripted:
    """Provider with given results."""

    def __init__(self, name: str, *results: Fetched | ProviderFailed) -> None:
        self.name = name
        self.has_deviation = False
        self.requested: list[str] = []
        self.closed = False
        self._results = list(results)

    async def check(self) -> Sequence[str]:
        return ()

    async def fetch(self, window: Window) -> Fetched:
        self.requested.append(window.duration)
        result = self._results.pop(0) if len(self._results) > 1 else self._results[0]
        if isinstance(result, ProviderFailed):
            raise result
        return result

    async def is_healthy(self) -> bool:
        return not isinstance(self._results[0], ProviderFailed)

    async def close(self) -> None:
        self.closed = True


def nodes(**cpu: float) -> Mapping[str, NodeMetrics]:
    return {
        name: NodeMetrics([Metric(type=kind, operator="AVG", value=value) for kind in ("CPU", "Memory")])
        for name, value in cpu.items()
    }


DOWN = ProviderFailed("http://metrics:9090 cannot be reached")


def watcher(*providers: Scripted, kept: Windows | None = None, file: Path | None = None) -> tuple[Watcher, Windows]:
    kept = kept or Windows(AGE)
    database = Database(file, 3600) if file else None
    return Watcher(providers, kept, clock=lambda: NOW, expected=lambda: ("a", "b"), database=database), kept


async def test_b2_if_every_provider_fails_the_last_snapshot_keeps_its_age() -> None:
    watching, kept = watcher(Scripted("Prometheus", Fetched(nodes(a=20.0)), DOWN))
    await watching.refresh("15m")
    refreshed = await watching.refresh("15m")
    assert refreshed.snapshot is None
    assert refreshed.failures == {"Prometheus": "http://metrics:9090 cannot be reached"}
    assert len(kept.kept("15m")) == 1
    with pytest.raises(records.NoMetrics):
        kept.latest("15m", NOW + AGE + 1)


async def test_b4_reports_a_failed_part_and_keeps_the_rest() -> None:
    result = Fetched(nodes(a=20.0), ["the query for memory failed"])
    refreshed = await watcher(Scripted("Prometheus", result))[0].refresh("15m")
    assert refreshed.problems == ["the query for memory failed"]
    assert refreshed.snapshot is not None


async def test_b3_a_broken_value_removes_neither_its_node_nor_the_others() -> None:
    broken = {
        "a": NodeMetrics(
            [Metric(type="CPU", operator="AVG", value=math.nan), Metric(type="Memory", operator="AVG", value=7.0)]
        )
    }
    watching, kept = watcher(Scripted("Prometheus", Fetched({**nodes(b=30.0), **broken})))
    refreshed = await watching.refresh("15m")
    assert [anomaly.kind for anomaly in refreshed.anomalies] == [AnomalyKind.NOT_A_NUMBER]
    found = kept.latest("15m", NOW).data.nodes
    assert [metric.type for metric in found["a"].metrics] == ["Memory"]
    assert [metric.value for metric in found["b"].metrics] == [30.0, 30.0]


async def test_g7_one_provider_replaces_another_that_is_down() -> None:
    watching, kept = watcher(Scripted("NodeMetric", DOWN), Scripted("Prometheus", Fetched(nodes(a=20.0, b=1.0))))
    refreshed = await watching.refresh("15m")
    assert refreshed.failures.keys() == {"NodeMetric"}
    assert kept.latest("15m", NOW).source == "Prometheus"
    assert await watching.is_healthy()


@pytest.mark.parametrize("age", [AGE, 3600.0])
async def test_g8_a_source_without_changes_for_twice_the_age_limit_is_dropped_until_it_changes(age: float) -> None:
    results = [Fetched(nodes(a=20.0, b=20.0))] * 21 + [Fetched(nodes(a=20.0, b=21.0))]
    seconds = [NOW]
    watching = Watcher([Scripted("Prometheus", *results)], Windows(age), clock=lambda: seconds[0])
    found = []
    for _round in range(22):
        found.append({each.node for each in (await watching.refresh("5m")).anomalies})
        seconds[0] += age / 10
    assert found == [set()] * 20 + [{"a", "b"}, {"a"}]


@pytest.mark.parametrize("age", [AGE, 3600.0])
async def test_g4_a_node_whose_newest_sample_is_older_than_the_age_limit_is_silent(age: float) -> None:
    def sampled(seconds_ago: float) -> Mapping[str, NodeMetrics]:
        window = records.window_ending_at("15m", NOW - seconds_ago)
        return {name: msgspec.structs.replace(node, window=window) for name, node in nodes(a=20.0, b=30.0).items()}

    watching, kept = watcher(
        Scripted("Prometheus", Fetched(sampled(age)), Fetched(sampled(age + 1))), kept=Windows(age)
    )
    assert not (await watching.refresh("15m")).anomalies
    assert kept.latest("15m", NOW).data.nodes.keys() == {"a", "b"}
    refreshed = await watching.refresh("15m")
    assert {anomaly.kind for anomaly in refreshed.anomalies} == {AnomalyKind.SILENT, AnomalyKind.MISSING}
    assert refreshed.snapshot is not None
    assert not refreshed.snapshot.data.nodes


class ByWindow(Scripted):
    """Provider with one answer for each window."""

    def __init__(self, answers: dict[str, Fetched | ProviderFailed]) -> None:
        super().__init__("Prometheus", Fetched({}))
        self.answers = answers

    async def fetch(self, window: Window) -> Fetched:
        answer = self.answers[window.duration]
        if isinstance(answer, ProviderFailed):
            raise answer
        return answer


async def findings_after(answers: ByWindow, *later: dict[str, Fetched | ProviderFailed]) -> list[list[AnomalyKind]]:
    """Return the findings of the last round, by window; rounds are a minute apart."""
    seconds = [NOW]
    watching = Watcher([answers], Windows(AGE), clock=lambda: seconds[0])
    for change in ({}, *later):
        answers.answers |= change
        found = [(await watching.refresh(each)).anomalies for each in DURATIONS_SECONDS]
        seconds[0] += 60.0
    return [[anomaly.kind for anomaly in each] for each in found]


async def test_g8_a_mean_does_not_contradict_a_shorter_window_from_before_it() -> None:
    answers = ByWindow(dict.fromkeys(DURATIONS_SECONDS, Fetched(nodes(a=90.0))))
    fell: dict[str, Fetched | ProviderFailed] = {"15m": Fetched(nodes(a=5.0)), "10m": Fetched(nodes(a=5.1)), "5m": DOWN}
    assert await findings_after(answers, fell) == [[AnomalyKind.CONTRADICTION] * 2, [AnomalyKind.CONTRADICTION] * 2, []]
    rounds = [{"15m": Fetched(nodes(a=5.0 + minute)), "10m": Fetched(nodes(a=5.5 + minute))} for minute in range(11)]
    answers = ByWindow(dict.fromkeys(DURATIONS_SECONDS, Fetched(nodes(a=90.0))))
    assert await findings_after(answers, fell, *rounds) == [[], [], []]


async def test_an_end_in_the_future_counts_as_now() -> None:
    later = Fetched(records.dated(nodes(a=20.0), records.window_ending_at("15m", NOW + 500)))
    watching, kept = watcher(Scripted("LoadWatcher", later))
    await watching.refresh("15m")
    assert kept.latest("15m", NOW).window.end == NOW


async def test_g1_serves_the_restored_windows_before_any_fetch(tmp_path: Path) -> None:
    file = tmp_path / "watcher.sqlite"
    before, kept = watcher(Scripted("NodeMetric", Fetched(nodes(a=20.0))), file=file)
    before.restore(AGE)
    await before.refresh("15m")
    after, restored = watcher(Scripted("NodeMetric", DOWN), file=file)
    assert after.restore(AGE) == 1
    assert restored.latest("15m", NOW) == kept.latest("15m", NOW)
    await before.close()
    await after.close()


async def test_runs_in_memory_without_a_usable_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    provider = Scripted("NodeMetric", Fetched(nodes(a=20.0)))
    watching, kept = watcher(provider, file=tmp_path / "gone" / "watcher.sqlite")
    assert watching.restore(AGE) == 0
    assert "kept in memory only" in caplog.text
    await watching.refresh("15m")
    assert kept.latest("15m", NOW)
    await watching.close()
    assert provider.closed


class Unexpected(Scripted):
    """Provider that raises an unexpected exception."""

    async def check(self) -> Sequence[str]:
        raise OverflowError("connect(): port must be 0-65535.")

    async def fetch(self, window: Window) -> Fetched:
        raise OverflowError(window.duration)

    async def is_healthy(self) -> bool:
        raise OverflowError


async def test_an_unexpected_error_of_a_provider_affects_only_its_own_part() -> None:
    both, kept = watcher(Unexpected("odd"), Scripted("good", Fetched(nodes(a=20.0, b=30.0))))
    await both.check()
    refreshed = await both.refresh("15m")
    assert refreshed.failures == {"odd": "unexpected error: OverflowError('15m')"}
    assert set(kept.latest("15m", NOW).data.nodes) == {"a", "b"}
    assert await both.is_healthy()
    assert not await watcher(Unexpected("odd"))[0].is_healthy()


class Asked(Scripted):
    """Provider that counts its health checks."""

    checks = 0

    async def is_healthy(self) -> bool:
        self.checks += 1
        await asyncio.sleep(0)
        return True


async def test_many_who_ask_for_the_health_cost_a_provider_one_request_in_ten_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    provider = Asked("asked", Fetched({}))
    watching, _kept = watcher(provider)
    assert all(await asyncio.gather(*(watching.is_healthy() for _ in range(20))))
    assert all([await watching.is_healthy() for _ in range(20)])
    assert provider.checks == 1
    monkeypatch.setattr(watcher_module, "_HEALTH_SECONDS", 0.0)
    assert await watching.is_healthy()
    assert provider.checks == 2
    await watching.close()


class Hanging(Scripted):
    """Provider that never returns."""

    async def fetch(self, window: Window) -> Fetched:
        await asyncio.Event().wait()
        raise AssertionError(window)


async def test_a_hanging_provider_fails_after_the_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler_plugin.load_watcher.watcher._LONGEST_FETCH_SECONDS", 0.01)
    both, kept = watcher(Hanging("hung"), Scripted("good", Fetched(nodes(a=20.0, b=30.0))))
    refreshed = await both.refresh("15m")
    assert refreshed.failures == {"hung": "the window was not complete within 0.01 s"}
    assert set(kept.latest("15m", NOW).data.nodes) == {"a", "b"}
