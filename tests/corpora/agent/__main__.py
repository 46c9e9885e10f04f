"""Play the cases of the corpus: `python -m tests.corpora.agent --write` freezes what they give."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time

from tests.corpora.agent import cases, world


def _line(case: world.Document) -> str:
    """Return a case with what it gives, as a line."""
    begin = time.process_time()
    line = json.dumps({**case, "gives": world.play(case)}, separators=(",", ":"))
    print(f"{time.process_time() - begin:6.2f} s {len(line):8d} bytes {case['name']}", flush=True)
    return line


def main() -> int:
    """Write the corpus, or refuse to overwrite it."""
    parser = argparse.ArgumentParser(prog="python -m tests.corpora.agent", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the corpus")
    parser.add_argument("--overwrite", action="store_true", help="also where there is one: every answer may change")
    parser.add_argument("--only", default="", help="play the cases with this text in their names, and print the times")
    options = parser.parse_args()
    chosen = [case for case in cases.all_cases() if options.only in case["name"]]
    with multiprocessing.Pool() as pool:
        lines = list(pool.imap(_line, chosen))
    if not options.write:
        return 0
    if options.only or (world.CASES.exists() and not options.overwrite):
        print(f"{world.CASES} exists, or only a part was played: --overwrite replaces all", file=sys.stderr)
        return 1
    world.CASES.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
