"""Statistics given as numbers, for tests of their users."""

import numpy as np

from koordlet.prediction.peaks import ProdLoad
from koordlet.samples import Resource


class PlainStatistics:
    """Means, deviations and percentiles of some series; `percentiles` maps a percent to a list."""

    def __init__(self, means=(), stdevs=(), percentiles=None):
        self._means, self._stdevs, self._percentiles = means, stdevs, percentiles or {}

    def mean(self):
        return np.array(self._means, float)

    def stdev(self):
        return np.array(self._stdevs, float)

    def percentile(self, percent):
        return np.array(self._percentiles[percent], float)


def prod_load(resource=Resource.CPU, warm_pods=None, warm_requests=0.0, cold_requests=0.0, **series):
    """Return a load without pods and samples, except those given."""
    absent = dict.fromkeys(("prod", "system", "unreserved_system", "prod_and_unreserved_system"))
    return ProdLoad(
        resource=resource,
        warm_pods=warm_pods or PlainStatistics(percentiles={95: [], 98: [], 99: [], 50: []}),
        warm_requests=warm_requests,
        cold_requests=cold_requests,
        **(absent | series),
    )
