from manager.watch_age import Silence, WatchAges


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
