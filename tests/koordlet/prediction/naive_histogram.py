"""The decaying histogram by its definition: every sample is stored, every result computed from all of them.

It shares no code with the product: bucket starts are added up width by width, a bucket is found by bisection, decay is
applied to each sample on demand, mean and variance are the two-pass sums in exact fractions.
"""

import bisect
from fractions import Fraction


class NaiveHistogram:
    def __init__(self, first_bucket_size, ratio, buckets, half_life_seconds):
        self.starts = [0.0]
        width = first_bucket_size
        for _ in range(buckets - 1):
            self.starts.append(self.starts[-1] + width)
            width *= ratio
        self.half_life_seconds = half_life_seconds
        self.samples = []

    def add(self, value, at_seconds, weight=1.0):
        self.samples.append((value, at_seconds, weight))

    def bucket_of(self, value):
        return max(bisect.bisect_right(self.starts, value) - 1, 0)

    def weights_at(self, now_seconds):
        return [weight * 2 ** ((at - now_seconds) / self.half_life_seconds) for _, at, weight in self.samples]

    def percentile(self, ratio, now_seconds):
        """Return the upper end of the first bucket at which the cumulative weight reaches the share."""
        by_bucket = {}
        for (value, _, _), weight in zip(self.samples, self.weights_at(now_seconds), strict=True):
            bucket = self.bucket_of(value)
            by_bucket[bucket] = by_bucket.get(bucket, 0.0) + weight
        running, wanted = 0.0, ratio * sum(by_bucket.values())
        for bucket in sorted(by_bucket):
            running += by_bucket[bucket]
            if running >= wanted:
                break
        return self.starts[min(bucket + 1, len(self.starts) - 1)]

    def mean_and_variance(self, now_seconds):
        """Return mean and variance, exact where each weight is a power of two or another exact float."""
        weights = [Fraction(weight) for weight in self.weights_at(now_seconds)]
        values = [Fraction(value) for value, _, _ in self.samples]
        total = sum(weights)
        mean = sum(w * v for w, v in zip(weights, values, strict=True)) / total
        variance = sum(w * (v - mean) ** 2 for w, v in zip(weights, values, strict=True)) / total
        return float(mean), float(variance)
