"""The prediction of the agent over usage with known results, and over the excerpt of real traces."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.backtest import cell, scores
from benchmarks.backtest.cell import Setting, replay_cell
from benchmarks.backtest.replay import Unanswered, replay
from koordctl.backtest import sources
from koordctl.backtest.node_history import SeriesStay
from koordctl.backtest.sources import Traces
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.predictors import registry
from koordlet.samples import Resource
from tests.fakes import installed_package

pytestmark = pytest.mark.slow

EXCERPT = Path(__file__).parents[3] / "benchmarks" / "backtest" / "data" / "azure_v1_vm_cpu_avg_excerpt.csv.gz"
ALL = [PredictParameters(predictor=name) for name in registry.PREDICTORS]
STEADY = np.array([[1.0] * 100, [3.0] * 100])


def run(pods, policies, predict_at, cores=STEADY, horizon_steps=5):
    return replay(pods, cores, [2, 4], policies, predict_at, horizon_steps, step_seconds=300)


def test_predicts_constant_usage_of_warm_constant_pods():
    """Two hours are 24 steps. Requests are 2 + 4; percentiles read up to 5 % and two millicores high, plus 10 %."""
    found = run([SeriesStay(0, 0, 100), SeriesStay(1, 0, 100)], ALL, [10, 50])
    assert found.oracle.tolist() == [4.0, 4.0]
    assert found.requests.tolist() == [6.0, 6.0]
    assert found.usage.tolist() == [4.0, 4.0]
    by_name = dict(zip(registry.PREDICTORS, found.peaks, strict=True))
    assert by_name["n-sigma-v1"] == pytest.approx([4.0 + 6.0, 4.0])  # the usage of cold pods and their requests
    assert by_name["n-sigma-v2"] == pytest.approx([6.0, 4.0])  # cold pods count once
    assert by_name["borg-default"] == pytest.approx([6.0, 6 / 1.1])
    assert by_name["resource-central"] == pytest.approx([6.0, 4.1], abs=0.1)
    assert by_name["percentile"] == pytest.approx([6.0, 4.52], abs=0.12)
    assert by_name["max"] == pytest.approx([6.0, 4.1], abs=0.1)


def test_a_pod_that_takes_the_place_of_another_is_cold_and_its_predecessor_gone():
    pods = [SeriesStay(0, 0, 100), SeriesStay(1, 0, 50), SeriesStay(1, 50, 100)]
    found = run(pods, [PredictParameters(predictor="borg-default")], [49, 50, 73, 74])
    assert found.peaks[0] == pytest.approx([6 / 1.1, 2 / 1.1 + 4, 2 / 1.1 + 4, 6 / 1.1])
    assert found.oracle.tolist() == [1.0, 4.0, 4.0, 4.0]  # at 49 the pod leaves with the next step


def test_a_predictor_without_a_prediction_stops_the_run():
    with pytest.raises(Unanswered, match="no-such-predictor at 9000 s: no prediction"):
        run([SeriesStay(0, 0, 100)], [PredictParameters(predictor="no-such-predictor")], [30])


def test_a_predictor_of_an_installed_package_is_replayed_with_its_ring_and_its_state(tmp_path, monkeypatch):
    """Constant usage of 1 + 3 cores, the ring in shares of capacity as float16."""
    monkeypatch.syspath_prepend(str(tmp_path))
    installed_package.install_example(tmp_path)
    policies = [PredictParameters(), PredictParameters(predictor="example/recent-peak")]
    found = run([SeriesStay(0, 0, 100), SeriesStay(1, 0, 100)], policies, [10, 50])
    assert found.peaks[1] == pytest.approx([0.0 + 6.0, 4.0], rel=1e-3)


def test_a_predictor_that_is_switched_off_stops_the_run(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    source = "class Bad:\n    def predict(self, load):\n        return -1\n"
    installed_package.write(tmp_path, "negative", {"v/negative": "negative:Bad"}, source)
    with pytest.raises(Unanswered, match="v/negative"):
        run([SeriesStay(0, 0, 100)], [PredictParameters(predictor="v/negative")], [50], STEADY[:1])


def test_a_prediction_does_not_depend_on_the_other_policies():
    usage = np.random.default_rng(5).gamma(2.0, 0.5, (2, 100))
    pods = [SeriesStay(0, 0, 60), SeriesStay(1, 0, 100), SeriesStay(0, 70, 100)]
    together = run(pods, ALL, range(30, 90, 6), usage)
    for policy, peaks in zip(ALL, together.peaks, strict=True):
        np.testing.assert_array_equal(run(pods, [policy], range(30, 90, 6), usage).peaks[0], peaks)


def test_calibrated_keeps_its_target_on_real_usage_and_saves_more_than_v2():
    policies = [
        PredictParameters(),
        *(PredictParameters(predictor="calibrated", violation_target_percent=target) for target in (1.0, 2.0)),
    ]
    setting = Setting(2, 8, 2, 2, seed=1, horizon_hours=1)
    found = replay_cell(sources.read_trace(EXCERPT), setting, policies, processes=1)
    n_sigma, one, two = (
        scores.score(np.minimum(peaks, found.requests), found.oracle, found.requests, 1.0) for peaks in found.peaks
    )
    assert one.violation_rate <= 0.02  # two nodes of two days: one violation is half a percent
    assert n_sigma.savings < one.savings <= two.savings


def test_a_trace_of_memory_is_predicted_as_memory():
    pods = [SeriesStay(0, 0, 100), SeriesStay(1, 0, 100)]
    found = replay(pods, STEADY, [2, 4], ALL, [50], 5, 300, Resource.MEMORY)
    by_name = dict(zip(registry.PREDICTORS, found.peaks, strict=True))
    assert found.oracle.tolist() == [4.0]
    assert by_name["n-sigma-v2"] == pytest.approx([4.0])
    assert by_name["borg-default"] == pytest.approx([6 / 1.1])


def test_a_series_with_a_long_gap_ends_its_pod_before_it():
    gapped = Traces(("a", "b", "c"), 300, np.where(np.arange(300) % 150 < 100, 0.5, np.nan) * np.ones((3, 1)))
    found = replay_cell(gapped, Setting(1, 2, 10, 0.1, horizon_hours=1), [PredictParameters()], processes=1)
    assert np.isfinite(found.peaks).all()


def test_predictors_on_real_usage():
    """One replay, as it takes seconds."""
    excerpt = replay_cell(sources.read_trace(EXCERPT), Setting(2, 8, 2, 2, seed=1), ALL, processes=1)
    assert excerpt.peaks.shape == (len(registry.PREDICTORS), 2, 48)
    assert np.isfinite(excerpt.peaks).all()
    assert (excerpt.oracle <= excerpt.requests).all()
    by_name = {
        name: scores.score(np.minimum(peaks, excerpt.requests), excerpt.oracle, excerpt.requests, 1.0)
        for name, peaks in zip(registry.PREDICTORS, excerpt.peaks, strict=True)
    }
    v1, v2, fixed = (by_name[name] for name in ("n-sigma-v1", "n-sigma-v2", "borg-default"))
    assert v2.violation_rate <= v1.violation_rate
    assert v2.savings <= v1.savings
    best = scores.score(excerpt.oracle, excerpt.oracle, excerpt.requests, 1.0).savings
    assert 0.05 < fixed.savings <= 1 - 1 / 1.1
    for name in ("n-sigma-v1", "n-sigma-v2", "resource-central", "percentile", "max"):
        assert fixed.savings < by_name[name].savings < best


def test_processes_do_not_change_the_result():
    whole = sources.read_trace(EXCERPT)
    day = Traces(whole.names, whole.step_seconds, whole.shares[:, :300], whole.unit)
    setting = Setting(2, 8, 2, 0.5, seed=1, horizon_hours=1)
    one, two = (replay_cell(day, setting, ALL[:2], processes) for processes in (1, 2))
    assert one.peaks.shape == (2, 2, 12)
    for name in cell.CellReplay.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
