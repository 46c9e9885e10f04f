"""Run conformance cases and count: passed, failed, different on purpose, not mapped."""

from __future__ import annotations

import collections
import dataclasses
import enum
from collections.abc import Iterable, Mapping
from typing import Any

from tests.conformance import adapters, catalog, not_mapped


class Outcome(enum.StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    DIFFERENT = "different on purpose"
    NOT_MAPPED = "not mapped"


@dataclasses.dataclass(frozen=True)
class Result:
    case: Mapping[str, Any]
    outcome: Outcome
    text: str = ""


class Absent(dict[str, Any]):
    """Input of a case, in which an absent key is null, as for the Go code that the cases describe."""

    def __missing__(self, key: str) -> None:
        return None


class Runner:
    """Runner with the maps of all adapter modules."""

    def __init__(self) -> None:
        self.adapters: dict[str, adapters.Adapter] = {}
        self.checks: dict[str, adapters.Check] = {}
        self.differences: list[adapters.Difference] = []
        for module in catalog.modules():
            self.adapters.update(getattr(module, "ADAPTERS", {}))
            self.checks.update(getattr(module, "CHECKS", {}))
            self.differences += [adapters.Difference(*row) for row in getattr(module, "DIFFERENT_ON_PURPOSE", [])]

    def run(self, case: Mapping[str, Any]) -> Result:
        """Run one case. A case that differs on purpose is not run; one that raises fails, and the others continue."""
        function = case["function"]
        if isinstance(case["input"], dict):
            case = {**case, "input": Absent(case["input"])}
        try:
            if reason := self.difference(case):
                return Result(case, Outcome.DIFFERENT, reason)
            if function not in self.adapters and function not in self.checks:
                return Result(case, Outcome.NOT_MAPPED, not_mapped.reason(function) or "no reason given")
            text = self._mismatch(case)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
        return Result(case, Outcome.FAILED if text else Outcome.PASSED, text or "")

    def difference(self, case: Mapping[str, Any]) -> str | None:
        """Return the reason for which a case differs on purpose. Its expected result is not shown to the predicates."""
        given = {"input": case["input"]}
        own = (each for each in self.differences if each.function == case["function"])
        return next((each.reason for each in own if each.applies(given)), None)

    def _mismatch(self, case: Mapping[str, Any]) -> str | None:
        if check := self.checks.get(case["function"]):
            return check(case["input"], case["expected"])
        actual = self.adapters[case["function"]](case["input"])
        absolute = max(float(case.get(name, 0)) for name in ("tolerance", "scoreTolerance"))
        relative = float(case.get("relTolerance", 1e-12))
        expected = case["expected"]
        if isinstance(expected, Mapping) and isinstance(actual, Mapping):
            expected = dict(expected)
            absolute = max(absolute, float(str(expected.pop("tolerance", 0)).split()[-1]))  # "absolute 1e-9"
            actual = adapters.stated(expected, actual)
            if actual.get("error") and expected.get("error"):  # beside an error Go returns zero values
                expected = {key: value for key, value in expected.items() if key in actual or value}
        if adapters.differs(expected, actual, absolute, relative):
            return f"expected {case['expected']}\n    came {actual}"
        return None


def table(results: Iterable[Result]) -> str:
    """Return one row for each function with its reasons, the failing cases, and the line of totals."""
    results = list(results)
    counts: dict[str, collections.Counter[Outcome]] = {}
    reasons: dict[str, dict[str, None]] = {}
    for result in results:
        function = result.case["function"]
        counts.setdefault(function, collections.Counter())[result.outcome] += 1
        if result.outcome in (Outcome.DIFFERENT, Outcome.NOT_MAPPED):
            reasons.setdefault(function, {})[result.text] = None
    lines = [f"{'function':<48}" + "".join(f"{outcome:>22}" for outcome in Outcome) + "  reason"]
    lines += [
        f"{name:<48}"
        + "".join(f"{row[outcome]:>22}" for outcome in Outcome)
        + "".join(f"  {text}" for text in ["; ".join(reasons.get(name, ()))] if text)
        for name, row in counts.items()
    ]
    lines += [f"{result.case['id']}: {result.text}" for result in results if result.outcome is Outcome.FAILED]
    total = collections.Counter(result.outcome for result in results)
    lines.append(", ".join(f"{total[outcome]} {outcome}" for outcome in Outcome))
    return "\n".join(lines)
