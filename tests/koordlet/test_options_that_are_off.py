"""Options of the agent that change pods or show samples: they are off where they are not set."""

from koordlet.settings import KoordletSettings


def test_limits_are_not_lowered_and_samples_not_served_unless_an_operator_enables_it():
    found = KoordletSettings()
    assert (found.enable_suppression, found.enable_debug_pages) == (False, False)
