"""The table, the CSV and the JSON of `koordctl backtest`."""

import csv
import io
import json
import re

import msgspec

from koordctl.backtest import report
from koordctl.backtest.report import Backtest, Settings
from koordctl.backtest.results import Row, Summary

CPU = Summary("cpu", "max", 4, 100, 1.234, 2.25, 3.46, 0.567, 7.894, 41.26, 2.126, 1.004)
MEMORY = Summary("memory", "calibrated, 1 %", 4, 100, 0.0, 0.0, 0.0, 0.0, 0.0, -3.26, 12.0, 0.0)
ORACLE = Summary("memory", "oracle", 5, 100, 9.0, 9.0, 9.0, 9.0, 9.0, 60.0, 30.5, 20.25)


def cells(text):
    return [re.split(r"\s{2,}", line) for line in text.splitlines()]


def test_each_summary_is_a_line_with_units_and_the_oracle_has_no_violations():
    assert cells(report.table([CPU, MEMORY, ORACLE])) == [
        ["resource", "candidate", "violations %", "p90 %", "p99 %", "severity %", "episodes a week", "savings %", "Mid",
         "Mid p10", "nodes"],
        ["cpu", "max", "1.23", "2.2", "3.5", "0.57", "7.89", "41.3", "2.13 cores", "1.00 cores", "4"],
        ["memory", "calibrated, 1 %", "0.00", "0.0", "0.0", "0.00", "0.00", "-3.3", "12.00 GiB", "0.00 GiB", "4"],
        ["memory", "oracle", "-", "-", "-", "-", "-", "60.0", "30.50 GiB", "20.25 GiB", "5"],
    ]  # fmt: skip
    assert cells(report.table([])) == cells(report.table([CPU]))[:1]
    assert not [line for line in report.table([CPU, ORACLE]).split("\n") if line != line.rstrip()]


def test_csv_has_every_field_of_a_summary():
    found = list(csv.DictReader(io.StringIO(report.as_csv([CPU, ORACLE]))))
    assert [each["candidate"] for each in found] == ["max", "oracle"]
    assert [
        {name: str(value) for name, value in msgspec.structs.asdict(each).items()} for each in (CPU, ORACLE)
    ] == found
    assert report.as_csv([]).count("\n") == 1


def test_json_has_each_row_on_a_line_and_the_summaries_and_notes_before():
    rows = [Row(f"n{number}", "cpu", "max", 3, 0.5, 0.25, 1.0, 4.0, 2.0, 1.0, 0.5) for number in range(3)]
    document = Backtest(Settings(3_600, 600, 2, {"seed": 1}), ["a\nproblem"], rows, 1, [CPU], "max", "use max")
    text = report.as_json(document)
    of_rows = [line for line in text.splitlines() if '"node": "n' in line]
    assert [json.loads(line.strip().rstrip(","))["node"] for line in of_rows] == ["n0", "n1", "n2"]
    found = json.loads(text)
    assert (found["kind"], found["shard"], found["recommended"], found["reason"]) == ("Backtest", 1, "max", "use max")
    assert (found["summaries"][0]["violationsPercentP90"], found["problems"]) == (2.25, ["a\nproblem"])
    assert found["notes"] == [report.PEAKS_NOTE]
    assert found["settings"] == {"horizonSeconds": 3_600, "intervalSeconds": 600, "shards": 2, "source": {"seed": 1}}
    assert text.endswith("}\n")
