"""Score a whole cell: what the back-test reports, and percentiles, shortfall and savings."""

from dataclasses import asdict, dataclass

import numpy as np

from koordctl.backtest import scores
from koordctl.backtest.scores import ForecastScore


@dataclass(frozen=True)
class CellScore(ForecastScore):
    """Ratios are 0..1, percentiles of the violation rate are over the machines."""

    violation_rate_p50: float
    violation_rate_p90: float
    violation_rate_p99: float
    severity_p99: float
    """Over all predictions."""
    shortfall: float
    """Mean severity of the violations alone; NaN without one."""
    savings: float
    """1 - sum of the peaks / sum of the requests, mean over the times at which a pod runs; NaN without one."""
    saved_cores: float
    """Mean over time."""


def score(peaks: np.ndarray, oracle: np.ndarray, requests: np.ndarray, interval_hours: float) -> CellScore:
    """Score predictions; the three arrays are (machines, times), in cores."""
    severity = scores.severities(peaks, oracle)
    rates = (severity > 0).mean(axis=1)
    offered, requested = peaks.sum(axis=0), requests.sum(axis=0)
    used = requested > 0
    return CellScore(
        **asdict(scores.score(peaks, oracle, interval_hours)),
        violation_rate_p50=float(np.percentile(rates, 50)),
        violation_rate_p90=float(np.percentile(rates, 90)),
        violation_rate_p99=float(np.percentile(rates, 99)),
        severity_p99=float(np.percentile(severity, 99)),
        shortfall=float(severity[severity > 0].mean()) if severity.any() else float("nan"),
        savings=float((1 - offered[used] / requested[used]).mean()) if used.any() else float("nan"),
        saved_cores=float((requested - offered).mean()),
    )
