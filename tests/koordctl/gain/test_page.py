"""The page of `koordctl gain`: its chart, and that text of the cluster is no markup."""

import re

from koordctl.gain import command
from koordctl.gain.gains import DayGain, Gain, GainSums, NamespaceMidUse

DAYS = [DayGain("2026-11-20", 0.0, 0.0, 0.0), DayGain("2026-11-21", 10.0, 5.0, 2.0)]


def test_each_day_has_its_core_hours_beside_its_bars():
    text = command.page_text(Gain("x", seconds=2 * 86_400.0, days=DAYS), "")
    assert re.findall(r"\d+ on offer, \d+ requested, \d+ used", text) == [
        "0 on offer, 0 requested, 0 used", "10 on offer, 5 requested, 2 used",
    ]  # fmt: skip
    width = int(re.search(r'viewBox="0 0 (\d+) ', text)[1])
    longest = max(float(each[0]) + float(each[1]) for each in re.findall(r'x="(\d+)" y="[^"]*" width="([^"]*)"', text))
    (beside,) = set(re.findall(r'<text x="(\d+)"[^>]*>\d+ on offer', text))
    assert longest < int(beside) < width


def test_text_of_the_cluster_is_no_markup_of_the_page():
    name = '<script>"&'
    text = command.page_text(Gain(name, namespaces={name: NamespaceMidUse(GainSums(1.0, 1.0))}, missing=[name]), name)
    assert "<script>" not in text
    assert text.count("&lt;script&gt;") == 5  # two titles, the date, the namespace, the missing part
    assert "default-src &#x27;none&#x27;" in text
