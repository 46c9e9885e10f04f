"""Means of the newest appends, of series that are known and that are not."""

import numpy as np

from koordlet.metric_cache.ring import RingCache
from koordlet.samples import NODE, SYSTEM, UsageSample


def test_without_an_append_or_a_known_series_there_is_no_mean():
    cache = RingCache(10.0, 1.0, 4)
    assert np.isnan(cache.newest_means([NODE, SYSTEM], 3)).all()
    cache.append(1.0, {NODE: UsageSample(2.0, 8.0)})
    assert np.isnan(cache.newest_means([NODE, SYSTEM], 0)).all()
    assert np.isnan(cache.newest_means([SYSTEM], 3)).all()
    means = cache.newest_means([SYSTEM, NODE], 3)
    assert np.isnan(means[:, 0]).all()
    assert means[:, 1].tolist() == [2.0, 8.0]
