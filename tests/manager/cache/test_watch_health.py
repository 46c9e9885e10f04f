from manager.cache.watch_health import Silence, WatchAges
from manager.leader import Leadership


def test_a_watch_is_silent_only_while_it_is_known_to_miss_changes():
    now = 100.0
    ages = WatchAges(["nodes", "nodemetrics"], lambda: now)
    now = 700.0
    assert ages.age_seconds("nodes") == 600.0
    assert ages.silent() is None  # a quiet cluster
    ages.missed("nodemetrics")
    now = 760.0
    assert ages.silent() == Silence("nodemetrics", 660.0)
    ages.seen("nodes")
    assert ages.silent() == Silence("nodemetrics", 660.0)
    ages.seen("nodemetrics")
    assert ages.silent() is None
    assert ages.age_seconds("nodemetrics") == 0.0


def test_a_leader_is_unhealthy_when_a_watch_misses_changes_or_its_loop_is_stuck():
    now = 0.0
    leadership = Leadership()
    leadership.watch_ages = WatchAges(["nodes"], lambda: now)
    now = 1000.0
    assert leadership.trouble(180) is None
    leadership.watch_ages.missed("nodes")
    assert leadership.trouble(180) == "the watch of nodes misses changes and has delivered nothing for 1000 s"
    assert leadership.trouble(1001) is None
    leadership.watch_ages.seen("nodes")
    assert leadership.trouble(180) is None
    leadership.last_heartbeat -= 61
    assert leadership.trouble(180) == "the event loop has not run for 61 s"
