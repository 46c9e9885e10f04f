"""The queue between the tick and the writer: bounded, oldest out first, every point accounted for."""

from hypothesis import given
from hypothesis import strategies as st

from koordlet.influxdb_exporter.queue import DropReason, PointQueue

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 12)),
        st.tuples(st.just("take"), st.integers(1, 5)),
        st.tuples(st.sampled_from(["done", "put_back", "refused"]), st.none()),
    )
)


def test_points_leave_in_the_order_they_came():
    queue = PointQueue(10)
    queue.add(["a", "b"])
    queue.add(["c"])
    assert list(queue.take(2)) == ["a", "b"]
    queue.done()
    assert list(queue.take(2)) == ["c"]


def test_a_full_queue_drops_the_oldest_and_counts_them():
    queue = PointQueue(3)
    queue.add(["a", "b", "c", "d", "e"])
    assert queue.dropped[DropReason.QUEUE_FULL] == 2
    assert list(queue.take(9)) == ["c", "d", "e"]


def test_points_that_were_not_written_are_the_oldest_again():
    queue = PointQueue(10)
    queue.add(["a", "b", "c"])
    queue.take(2)
    queue.put_back()
    assert list(queue.take(9)) == ["a", "b", "c"]


def test_points_put_back_into_a_full_queue_give_way_to_newer_ones():
    queue = PointQueue(3)
    queue.add(["a", "b", "c"])
    queue.take(2)
    queue.add(["d", "e"])
    queue.put_back()
    assert queue.dropped[DropReason.QUEUE_FULL] == 2
    assert list(queue.take(9)) == ["c", "d", "e"]


def test_what_the_server_never_takes_is_dropped_under_its_own_reason():
    queue = PointQueue(3)
    queue.add(["a", "b", "c"])
    queue.take(2)
    queue.refused()
    assert (queue.dropped[DropReason.REFUSED], queue.depth) == (2, 1)


def test_what_is_left_at_the_end_is_counted_also_when_it_is_on_its_way():
    queue = PointQueue(3)
    queue.add(["a", "b", "c"])
    queue.take(1)
    assert queue.abandon() == 3
    assert (queue.dropped[DropReason.SHUTDOWN], queue.depth) == (3, 0)


@given(st.integers(1, 8), STEPS)
def test_whatever_happens_every_point_is_accounted_for_and_memory_is_bounded(capacity, steps):
    queue = PointQueue(capacity)
    under_way = 0
    for verb, number in steps:
        if verb == "add":
            queue.add(["x"] * number)
        elif verb == "take" and not under_way:
            under_way = len(queue.take(number))
        elif verb in {"done", "put_back", "refused"}:
            getattr(queue, verb)()
            under_way = 0
        assert queue.added == queue.written + sum(queue.dropped.values()) + queue.depth
        assert queue.depth <= capacity + under_way
