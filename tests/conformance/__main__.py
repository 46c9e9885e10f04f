"""`python -m tests.conformance FILE...`: run files of cases; exit 1 when a case fails."""

from __future__ import annotations

import argparse
import json
import pathlib
import sys

from tests.conformance import runner


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description="Run files of conformance cases.")
    parser.add_argument("files", nargs="+", type=pathlib.Path, metavar="FILE")
    run = runner.Runner().run
    results = [run(case) for file in parser.parse_args(argv).files for case in json.loads(file.read_bytes())]
    print(runner.table(results))
    return 1 if any(result.outcome is runner.Outcome.FAILED for result in results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
