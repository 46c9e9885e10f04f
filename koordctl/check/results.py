"""Results of checks and the answer that is printed. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from fleet.checks import CheckVerdict, Verdict
from fleet.finding_kinds import Category
from koordctl.cli.answer import ERROR_SIGN, FINE, NOTHING, OK_SIGN, WARNING_SIGN, Answer, Column, Table
from koordctl.cli.document import AnswerDocument, Part

PAGE: Final = "docs/operations/findings.md"
"""Page with a section for each code."""
SIGNS: Final = {
    Verdict.FAILED: ERROR_SIGN,
    Verdict.WARNING: WARNING_SIGN,
    Verdict.PASSED: OK_SIGN,
    Verdict.SKIPPED: "\u2013",
}
_STYLES: Final = {Verdict.FAILED: "error", Verdict.WARNING: "warning"}


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


def exit_code(results: Iterable[CheckVerdict], fail_on: str) -> int:
    """Return 1 where a check failed, or with `fail_on` warning where one warns."""
    return NOTHING if any(result.is_bad(fail_on) for result in results) else FINE


def answer(results: Iterable[CheckVerdict], namespace: str, fail_on: str) -> Answer:
    """Return the answer: one line for each check, then what to do about those that did not pass."""
    order = list(Category)
    ordered = sorted(results, key=lambda result: order.index(result.kind.category))
    checks = [
        CheckResult(
            category=result.kind.category,
            code=result.kind.code,
            verdict=result.verdict,
            text=result.text,
            fix=result.fix.replace("NAMESPACE", namespace),
            page=f"{PAGE}#{result.kind.code.lower()}",
        )
        for result in ordered
    ]
    rows = [(check.category, f"{SIGNS[check.verdict]} {check.verdict}", check.code, check.text) for check in checks]
    columns = [Column(title) for title in ("CATEGORY", "RESULT", "CHECK", "FOUND")]
    counts = Counter(check.verdict for check in checks)
    code = exit_code(ordered, fail_on)
    tail = []
    for check in checks:
        if check.verdict in _STYLES:
            tail += ["", f"{check.code}: {check.text}", f"  do   {check.fix}", f"  see  {check.page}"]
    return Answer(
        Check(works=code == FINE, counts={verdict.value: counts[verdict] for verdict in Verdict}, checks=checks),
        [Table(columns, rows, [_STYLES.get(check.verdict, "") for check in checks])],
        [f"check/{check.code}" for check in checks],
        tail=[*tail, "", ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict])],
        exit_code=code,
    )
