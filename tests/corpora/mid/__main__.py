"""Write the cases and their answers by the code of today: `python -m tests.corpora.mid --write`.

Files that exist are kept, unless --overwrite is given.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from typing import Any

from tests.corpora.mid import chance, designs, evictions
from tests.corpora.mid.cases import FOLDER
from tests.corpora.mid.replay import replay

GROUPS = {
    "formula": designs.formula, "listing": designs.listing, "writes": designs.writes,
    "withdrawals": designs.withdrawals, "shadow": designs.shadows, "shrinking": designs.shrinking,
    "closed": designs.closed, "strategies": designs.strategies, "explained": designs.explained,
    "eviction": evictions.shortages, "drain": evictions.whole_nodes, "emptying": evictions.emptying,
    "bounds": evictions.bounds, "random": chance.cases,
}  # fmt: skip


def answered(cases: Iterable[dict[str, Any]]) -> list[str]:
    """Return the cases with their answers, a line each."""
    return [json.dumps(case | {"expected": replay(case)}, separators=(",", ":")) for case in cases]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.corpora.mid", description=__doc__)
    parser.add_argument("--write", nargs="*", metavar="GROUP", help="write these groups; all where none is named")
    parser.add_argument("--overwrite", action="store_true", help="replace files that exist")
    given = parser.parse_args()
    if given.write is None:
        parser.print_help()
        return 2
    for group in given.write or GROUPS:
        path = FOLDER / f"cases-{group}.json"
        if path.exists() and not given.overwrite:
            sys.stderr.write(f"{path.name} exists: an answer is frozen; --overwrite replaces it, see README.md\n")
            return 1
        lines = answered(GROUPS[group]())
        path.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")
        print(f"{path.name}: {len(lines)} cases")
    return 0


if __name__ == "__main__":
    sys.exit(main())
