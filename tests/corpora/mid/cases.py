"""Read the frozen cases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


def groups() -> list[str]:
    return sorted(path.stem.removeprefix("cases-") for path in FOLDER.glob("cases-*.json"))


def read(group: str) -> list[dict[str, Any]]:
    return json.loads((FOLDER / f"cases-{group}.json").read_text(encoding="utf-8"))
