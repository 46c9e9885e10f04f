"""`make help` lists the targets."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_make_help_lists_every_target_with_a_description() -> None:
    described = re.findall(r"^(\S+):.* ## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    run = subprocess.run(["make", "--no-print-directory", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    shown = {line.split()[0] for line in re.sub(r"\x1b\[\d*m", "", run.stdout).splitlines()}
    assert {"test", "e2e", "e2e-long"} <= set(described)
    assert set(described) == shown
