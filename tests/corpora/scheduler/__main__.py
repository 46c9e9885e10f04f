"""Write the corpus, or replay it.

python -m tests.corpora.scheduler             replay; print the cases whose answers differ
python -m tests.corpora.scheduler --write     make the files; --again overwrites existing ones
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.corpora.scheduler import adapter

FOLDER: Final = Path(__file__).parent
FILES: Final = ("configuration", "by_hand", "load_aware", "mid_guard", "trimaran")


def stored(file: str) -> Iterator[dict[str, Any]]:
    """Return the cases of a file, with their answers."""
    with (FOLDER / f"{file}.jsonl").open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def difference(case: dict[str, Any]) -> str:
    """Return how the product answers a case otherwise; empty where it does not."""
    answers = json.loads(json.dumps(adapter.answers(case)))
    for index, (answer, wanted) in enumerate(zip(answers, case["answers"], strict=True)):
        if json.dumps(answer) != json.dumps(wanted):
            return f"{case['name']}, answer {index}: seen {json.dumps(answer)}, want {json.dumps(wanted)}"
    return ""


def write(*, again: bool) -> None:
    """Answer the cases by hand that have no answers, and make the random cases; `again`: answer all of them."""
    from tests.corpora.scheduler import worlds  # what makes cases is not needed to replay them

    random_cases = worlds.cases()
    existing = [file for file in random_cases if (FOLDER / f"{file}.jsonl").exists()]
    if existing and not again:
        print(
            f"the corpus is frozen, left {', '.join(existing)} and all answers as they are: want --again to change them"
        )
    for file in FILES:
        if again or file not in existing:
            cases = random_cases[file] if file in random_cases else stored(file)
            answered = [case if "answers" in case and not again else _answered(case) for case in cases]
            lines = [json.dumps(case, separators=(",", ":")) for case in answered]
            (FOLDER / f"{file}.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _answered(case: dict[str, Any]) -> dict[str, Any]:
    return {**case, "answers": adapter.answers(case)}


def main() -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.corpora.scheduler", description=__doc__)
    parser.add_argument("--write", action="store_true", help="answer new cases")
    parser.add_argument("--again", action="store_true", help="answer all cases again, and make the random ones again")
    options = parser.parse_args()
    if options.write:
        write(again=options.again)
        return 0
    differences = [text for file in FILES for case in stored(file) if (text := difference(case))]
    print("\n".join(differences) or "no answer differs")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
