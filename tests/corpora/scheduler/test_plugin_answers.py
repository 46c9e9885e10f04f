"""The answers to the plugin inside kube-scheduler are those of the extender, in every case of the corpus.

Scores are those of the extender divided by the weight of all score plugins, which the profile gives to KoordSuite.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from scheduler_plugin.kube_scheduler.frames import Answer
from tests.corpora.scheduler import __main__ as corpus
from tests.corpora.scheduler import adapter

_FEWEST = {"by_hand": 0, "load_aware": 0, "mid_guard": 0, "trimaran": 0}


class _Both(adapter.Scheduler):
    """The product, asked both ways."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.compared = 0

    def _place(
        self, pod: dict[str, Any], nodes: list[str] | None = None, bind: str = "", waits: bool = False
    ) -> dict[str, Any]:
        parts = self._parts
        parts.check_blindness(self._silent_seconds, self._now)
        parts.answers.show(json.dumps(pod).encode(), self._now)
        answer = parts.answers.ask(pod["metadata"]["uid"], self._now)
        by_extender = super()._place(pod, nodes, bind, waits)
        weight = parts.cycle.total_weight or 1
        for node, seen in by_extender.items():
            wanted = seen[1] if isinstance(seen, list) else seen and seen // weight
            assert _of_answer(answer, parts, node) == wanted, (node, pod)
            self.compared += 1
        return by_extender


def _of_answer(answer: Answer, parts: Any, node: str) -> Any:
    """Return the score of a node that passes, else what the extender answers of one that does not."""
    row = parts.vectors.rows.get(node, -1)
    code = answer.unknown_code if row < 0 else 0 if answer.codes is None else int(answer.codes[row])
    if code:
        text, _ = parts.answers.reasons()[code - 1]
        return adapter.reason(answer.texts.get(code, text))
    return None if row < 0 else 0 if answer.scores is None else int(answer.scores[row])


@pytest.mark.parametrize("file", _FEWEST)
def test_every_answer_is_that_of_the_extender(file: str) -> None:
    compared = 0
    for case in corpus.stored(file):
        made: list[_Both] = []

        def both(*args: Any, made: list[_Both] = made) -> _Both:
            made.append(_Both(*args))
            return made[0]

        adapter.answers(case, both)
        compared += sum(scheduler.compared for scheduler in made)
    print(file, compared)
    assert compared > _FEWEST[file]
