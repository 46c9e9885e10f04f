"""Results of checks and the answer that is printed. Pure."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from fleet.finding_kinds import KINDS, Category, FindingKind, Severity
from koordctl.cli.answer import ERROR_SIGN, FINE, NOTHING, OK_SIGN, WARNING_SIGN, Answer, Column, Table
from koordctl.cli.document import AnswerDocument, Part

PAGE: Final = "docs/operations/findings.md"
"""Page with a section for each code."""


class Verdict(enum.StrEnum):
    """Result of a check."""

    FAILED = "failed"
    WARNING = "warning"
    PASSED = "passed"
    SKIPPED = "skipped"
    """Not installed, or not to be read by the caller."""


SIGNS: Final = {
    Verdict.FAILED: ERROR_SIGN,
    Verdict.WARNING: WARNING_SIGN,
    Verdict.PASSED: OK_SIGN,
    Verdict.SKIPPED: "\u2013",
}
_STYLES: Final = {Verdict.FAILED: "error", Verdict.WARNING: "warning"}
_OF_SEVERITY: Final = {
    Severity.ERROR: Verdict.FAILED,
    Severity.WARNING: Verdict.WARNING,
    Severity.NOTE: Verdict.PASSED,
}


class CheckResult(Part):
    """Result of one check."""

    category: Category
    code: str
    """As on the page of the findings."""
    verdict: Verdict
    text: str
    fix: str
    """What to do: a command, or a sentence; empty where the check passed."""
    page: str
    """Page of the documentation."""


class Check(AnswerDocument):
    """Document of `koordctl check`."""

    works: bool
    """Whether the exit code is 0."""
    counts: dict[str, int]
    """Number of the checks, by verdict."""
    checks: list[CheckResult]


@dataclass(frozen=True)
class CheckVerdict:
    """Result of one check."""

    kind: FindingKind
    verdict: Verdict
    text: str
    fix: str = ""

    def is_bad(self, fail_on: str) -> bool:
        """Check whether it failed, or with `fail_on` warning whether it warns."""
        return self.verdict is Verdict.FAILED or (fail_on == "warning" and self.verdict is Verdict.WARNING)


def passed(code: str, text: str) -> CheckVerdict:
    """Return the result of a check that passes."""
    return CheckVerdict(KINDS[code], Verdict.PASSED, text)


def skipped(code: str, text: str) -> CheckVerdict:
    """Return the result of a check that was not made."""
    return CheckVerdict(KINDS[code], Verdict.SKIPPED, text)


def failed(code: str, text: str, fix: str | None = None) -> CheckVerdict:
    """Return the result of a check that finds what its kind states."""
    kind = KINDS[code]
    return CheckVerdict(kind, _OF_SEVERITY[kind.severity], text, kind.fix if fix is None else fix)


def exit_code(results: Iterable[CheckVerdict], fail_on: str) -> int:
    """Return 1 where a check failed, or with `fail_on` warning where one warns."""
    return NOTHING if any(result.is_bad(fail_on) for result in results) else FINE


def answer(results: Iterable[CheckVerdict], namespace: str, fail_on: str) -> Answer:
    """Return the answer: one line for each check, then what to do about those that did not pass."""
    order = list(Category)
    ordered = sorted(results, key=lambda result: order.index(result.kind.category))
    rows = [
        (result.kind.category, f"{SIGNS[result.verdict]} {result.verdict}", result.kind.code, result.text)
        for result in ordered
    ]
    columns = [Column(title) for title in ("CATEGORY", "RESULT", "CHECK", "FOUND")]
    counts = Counter(result.verdict for result in ordered)
    code = exit_code(ordered, fail_on)
    return Answer(
        Check(
            works=code == FINE,
            counts={verdict.value: counts[verdict] for verdict in Verdict},
            checks=[_document(result, namespace) for result in ordered],
        ),
        [Table(columns, rows, [_STYLES.get(result.verdict, "") for result in ordered])],
        [f"check/{result.kind.code}" for result in ordered],
        tail=[*_details(ordered, namespace), "", _summary(counts)],
        exit_code=code,
    )


def _summary(counts: Counter[Verdict]) -> str:
    order = (Verdict.FAILED, Verdict.WARNING, Verdict.PASSED, Verdict.SKIPPED)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in order if counts[verdict])


def page(kind: FindingKind) -> str:
    """Return the section of the documentation about a code."""
    return f"{PAGE}#{kind.code.lower()}"


def _details(ordered: Sequence[CheckVerdict], namespace: str) -> list[str]:
    lines = []
    for result in ordered:
        if result.verdict in _STYLES:
            lines += ["", f"{result.kind.code}: {result.text}"]
            lines += [f"  do   {_fix(result, namespace)}", f"  see  {page(result.kind)}"]
    return lines


def _fix(result: CheckVerdict, namespace: str) -> str:
    return result.fix.replace("NAMESPACE", namespace)


def _document(result: CheckVerdict, namespace: str) -> CheckResult:
    return CheckResult(
        category=result.kind.category,
        code=result.kind.code,
        verdict=result.verdict,
        text=result.text,
        fix=_fix(result, namespace),
        page=page(result.kind),
    )
