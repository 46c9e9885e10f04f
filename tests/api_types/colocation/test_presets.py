"""Presets: what each one sets, and that the words about it state the same."""

import re

import pytest

from api_types.colocation import presets

VALUES = {
    # preset: CPU %, memory %, rise %, predictor, N, violation target %, eviction
    "conservative": (40, 30, 10, "n-sigma-v2", 5.0, None, None),
    "balanced": (65, 50, 25, "calibrated", None, 1.0, "evict"),
    "aggressive": (90, 80, None, "calibrated", None, 2.0, "evict"),
}
SHARES = {10: "a tenth", 25: "a quarter"}


@pytest.mark.parametrize("name", presets.PRESETS)
def test_the_words_about_a_preset_state_its_values(name):
    cpu, memory, rise, _, n, target, eviction = VALUES[name]
    mid, risk = presets.EXPECTATIONS[name]
    assert re.findall(r"(\d+) %", mid) == [str(cpu), str(memory)]
    assert (f"rising by at most {SHARES[rise]} of the node" if rise else "at once") in mid
    if n is not None:
        assert f"mean + {n:g} stdev for at most {100 / (1 + n * n):.1f} %" in risk
    if target is not None:
        assert f"CPU peak in at most {target:g} %" in risk
        assert f"memory peak in at most {target / 2:g} %" in risk
    assert ("evicted" in risk) is (eviction == "evict")
