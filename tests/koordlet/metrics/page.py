"""Metrics of one collector, as a scrape shows them."""

from prometheus_client import CollectorRegistry


class Page:
    """Values of one collector."""

    def __init__(self, collector):
        self._registry = CollectorRegistry()
        self._registry.register(collector)

    def value(self, name, **labels):
        return self._registry.get_sample_value(f"koordlet_{name}", labels)

    def values(self, name):
        found = (sample for family in self._registry.collect() for sample in family.samples)
        return {tuple(each.labels.values()): each.value for each in found if each.name == f"koordlet_{name}"}
