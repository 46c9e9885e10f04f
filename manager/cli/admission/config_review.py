"""Review of an edit of the configuration as it is made: what the manager would refuse is refused, with its text."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

import kopf

from api_types import names
from manager.slo_config import evaluation

log = logging.getLogger(__name__)

HANDLER: Final = "colocation-config"
"""Id of the handler, and the path in the webhook configuration of the chart."""


def add_handler(registry: kopf.OperatorRegistry) -> None:
    """Add the handler of the ConfigMap; an error of its own lets the edit pass, as the manager checks it again."""

    @kopf.on.validate("", "v1", "configmaps", id=HANDLER, registry=registry)
    async def check(body: kopf.Body, warnings: list[str], old: kopf.Body | None = None, **_: Any) -> None:
        try:
            refusal, advice = reviewed(body.get("data"), old.get("data") if old else None)
        except Exception:
            log.exception("the check of an edit of the configuration failed; the manager checks it again")
            return
        if refusal:
            raise kopf.AdmissionError(refusal, code=422)
        warnings.extend(advice)


def reviewed(data: Mapping[str, str] | None, before: Mapping[str, str] | None) -> tuple[str, list[str]]:
    """Return why the manager would not use the document of a ConfigMap, empty where it would, and what it advises."""
    outcome = evaluation.evaluate(evaluation.restore(before), data, exists=True)
    texts = [f"{names.COLOCATION_CONFIG_KEY}: {problem.with_effect()}" for problem in outcome.problems]
    if outcome.state is evaluation.State.REFUSED:
        return "; ".join(texts), []
    if outcome.state is evaluation.State.KEY_ABSENT:
        texts.append(f"an absent or empty {names.COLOCATION_CONFIG_KEY} changes nothing; {evaluation.OFF}")
        if evaluation.document_text(before) is not None:
            return "; ".join(texts), []
    return "", texts
