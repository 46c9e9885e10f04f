"""Tests of the model of kube-scheduler's queue."""

import pytest

from scheduler_plugin.simulation.kube_scheduler_model import Due, QueueBackoff, SchedulingQueue, read_backoff


def test_a_departure_wakes_every_pod_and_a_start_only_those_of_the_extender():
    queue = SchedulingQueue()
    queue.refused(1, 1, 0.0, by_extender=True)
    queue.refused(2, 1, 0.0, by_extender=False)
    assert list(queue.pod_started(5.0)) == [Due(1, 5.0)]
    assert list(queue.pod_started(6.0)) == []
    assert list(queue.pod_left(7.0)) == [Due(2, 7.0)]
    assert len(queue) == 0


@pytest.mark.parametrize(("attempt", "seconds"), [(1, 2), (2, 4), (3, 8), (4, 10), (10_000, 10)])
def test_a_woken_pod_waits_until_its_backoff_is_over(attempt, seconds):
    queue = SchedulingQueue(QueueBackoff(2, 10))
    queue.refused(1, attempt, 100.0, by_extender=True)
    assert list(queue.changed(1, 100.5)) == [Due(1, 100.0 + seconds)]


def test_without_an_event_a_pod_is_tried_after_five_minutes():
    queue = SchedulingQueue()
    assert queue.refused(1, 1, 10.0, by_extender=True) == 330.0
    assert not queue.flushed(1, 329.0)
    assert queue.flushed(1, 330.0)
    assert not queue.flushed(1, 330.0)


def test_a_flush_of_an_earlier_attempt_finds_nothing_due():
    queue = SchedulingQueue()
    queue.refused(1, 1, 0.0, by_extender=True)
    list(queue.changed(1, 100.0))
    queue.refused(1, 2, 101.0, by_extender=True)
    assert not queue.flushed(1, 300.0)
    assert list(queue.changed(2, 300.0)) == []


@pytest.mark.parametrize(
    ("document", "wanted"),
    [
        ({}, QueueBackoff(1, 10)),
        ({"podInitialBackoffSeconds": 5}, QueueBackoff(1, 10)),  # a configuration of the plugin, not of kube-scheduler
        ({"profiles": [], "podInitialBackoffSeconds": 2}, QueueBackoff(2, 10)),
        ({"profiles": [], "podInitialBackoffSeconds": 20}, QueueBackoff(20, 20)),
        ({"profiles": [], "podMaxBackoffSeconds": 60}, QueueBackoff(1, 60)),
    ],
)
def test_reads_the_backoff_of_kube_scheduler(document, wanted):
    assert read_backoff(document) == wanted
