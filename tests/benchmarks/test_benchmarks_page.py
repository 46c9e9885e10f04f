"""benchmarks/README.md lists every program and module."""

import pathlib
import re

FOLDER = pathlib.Path(__file__).parents[2] / "benchmarks"


def test_every_program_and_module_is_listed_and_exists():
    listed = set(re.findall(r"^\| (.+?) \|", (FOLDER / "README.md").read_text(encoding="utf-8"), re.MULTILINE))
    names = {name.rstrip("/") for cell in listed for name in re.findall("`([a-z_/]+)`", cell)}
    programs = {"compare", "product_cost"}
    assert names | programs == {path.stem for path in FOLDER.iterdir() if path.suffix == ".py"} | {"backtest"}
