"""Page with the inputs of a prediction: as a document, and as a stream."""

import json
import types

import numpy as np

from koordlet.metric_cache.aggregation import TimeWindow, WindowSamples
from koordlet.metrics import debug_pages
from koordlet.samples import SeriesKey, SeriesKind


def window(series, samples):
    keys = tuple(SeriesKey(SeriesKind.POD, f"pod-{number}") for number in range(series))
    values = np.arange(2 * series * samples, dtype=np.float64).reshape(2, series, samples)
    return WindowSamples(TimeWindow(samples, samples), keys, np.arange(samples, dtype=np.float64), values)


def reports(pods):
    cache = types.SimpleNamespace(cached=lambda _until: pods)
    evaluation = types.SimpleNamespace(forecast=None, closed=())
    observer = types.SimpleNamespace(
        newest_at_seconds=2.0, cache=cache, trained_at_seconds=[1.0], evaluation=evaluation
    )
    return types.SimpleNamespace(observer=observer, predicted_at_seconds=[2.0])


def test_the_pieces_are_one_document_in_which_an_absent_sample_is_null():
    pods = window(2, 3)
    pods.values[1, 0, 1] = np.nan
    document = json.loads(b"".join(debug_pages.pieces(debug_pages.inputs(reports(pods)))))
    assert document == {
        "atSeconds": [0.0, 1.0, 2.0],
        "series": [
            {"kind": "pod", "identity": "pod-0", "cpu": [0.0, 1.0, 2.0], "memory": [6.0, None, 8.0]},
            {"kind": "pod", "identity": "pod-1", "cpu": [3.0, 4.0, 5.0], "memory": [9.0, 10.0, 11.0]},
        ],
        "trainedAtSeconds": [1.0],
        "predictedAtSeconds": [2.0],
        "forecasts": {"open": None, "closed": []},
    }


def test_no_piece_holds_more_than_one_series():
    of_all = debug_pages.inputs(reports(window(100, 1800)))
    sizes = [len(piece) for piece in debug_pages.pieces(of_all)]
    assert sum(sizes) > 2_000_000
    assert max(sizes) < 64 * 1024
