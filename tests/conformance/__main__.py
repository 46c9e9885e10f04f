"""`python -m tests.conformance FILE...`: run files of cases; exit 1 when a case fails."""

from __future__ import annotations

import json
import pathlib
import sys

from tests.conformance import runner


def main(files: list[str]) -> int:
    if not files:
        print("usage: python -m tests.conformance FILE...", file=sys.stderr)
        return 2
    run = runner.Runner().run
    results = [run(case) for file in files for case in json.loads(pathlib.Path(file).read_text(encoding="utf-8"))]
    print(runner.table(results))
    return 1 if any(result.outcome is runner.Outcome.FAILED for result in results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
