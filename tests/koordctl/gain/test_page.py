"""The page of `koordctl gain`: its chart, and that text of the cluster is no markup."""

import re

import pytest

from koordctl.gain import page
from koordctl.gain.gains import Gain, GainDay, GainSums, NamespaceMidUse

DAYS = [GainDay("2026-11-20", 0.0, 0.0, 0.0), GainDay("2026-11-21", 36_000.0, 18_000.0, 7_200.0)]


def widths(days):
    text = page.text(Gain("x", seconds=1.0, days=days), "")
    return [float(each) for each in re.findall(r'<rect class="." .*? width="(.*?)"', text)]


@pytest.mark.parametrize("largest", range(3))
def test_the_widest_bar_is_the_largest_amount_of_all_days(largest):
    amounts = [1.0, 2.0, 3.0]
    amounts[largest] = 12.0
    found = widths([GainDay("2026-11-20", 6.0, 6.0, 6.0), GainDay("2026-11-21", *amounts)])
    assert found[3 + largest] == max(found)
    assert found == pytest.approx([max(found) * each / 12 for each in (6.0, 6.0, 6.0, *amounts)], abs=0.05)


def test_each_day_has_its_core_hours_beside_its_bars():
    text = page.text(Gain("x", seconds=2 * 86_400.0, days=DAYS), "")
    assert re.findall(r"\d+ on offer, \d+ requested, \d+ used", text) == [
        "0 on offer, 0 requested, 0 used", "10 on offer, 5 requested, 2 used",
    ]  # fmt: skip
    width = int(re.search(r'viewBox="0 0 (\d+) ', text)[1])
    longest = max(float(each[0]) + float(each[1]) for each in re.findall(r'x="(\d+)" y="[^"]*" width="([^"]*)"', text))
    (beside,) = set(re.findall(r'<text x="(\d+)"[^>]*>\d+ on offer', text))
    assert longest < int(beside) < width


def test_text_of_the_cluster_is_no_markup_of_the_page():
    name = '<script>"&'
    text = page.text(Gain(name, namespaces={name: NamespaceMidUse(GainSums(1.0, 1.0))}, missing=[name]), name)
    assert "<script>" not in text
    assert text.count("&lt;script&gt;") == 5  # two titles, the date, the namespace, the missing part
    assert "default-src &#x27;none&#x27;" in text
