"""Ask apimachinery's ParseQuantity for 100,000 random texts, and compare or freeze; wants `go` and its modules.

python -m tests.corpora.quantities             compare; print the texts that this project reads otherwise
python -m tests.corpora.quantities --write     freeze the answers to some of the texts
"""

import argparse
import random
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Final

from api_types.kubernetes import quantities

FOLDER: Final = Path(__file__).parent
FROZEN: Final = FOLDER / "answers.txt"
MODULE: Final = FOLDER.parents[2] / "tools" / "localcluster" / "go"
SUFFIXES: Final = (*"numkMGTPEeE", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "", "", "K", "ki", "i", "mm", " ")


def texts(count: int) -> Iterator[str]:
    """Return random texts, most of them quantities; Kubernetes takes minutes for some exponents, which are left out."""
    chance = random.Random(44)

    def digits(*lengths: int) -> str:
        return "".join(chance.choices("0123456789", k=chance.choice(lengths)))

    for _ in range(count):
        if chance.random() < 0.05:
            yield "".join(chance.choices("+-.0123456789eEinumkKMGTP ", k=chance.randint(1, 8)))
            continue
        zeros = "0" * chance.choice((0, 0, 0, 1, 3, 65, 80))
        number = zeros + digits(0, 1, 2, 3, 6, 12, 17, 18, 19, 20, 40)
        if chance.random() < 0.4:
            number += "." + digits(0, 1, 2, 3, 8, 9, 10, 18, 30) + "0" * chance.choice((0, 0, 3))
        suffix = chance.choice(SUFFIXES)
        if suffix in ("e", "E") or chance.random() < 0.2:
            power = chance.choice((*range(-30, 31), 99, 400, -400, 2**32 + 3, 2**32 - 3, 2**63 - 1, -(2**63), 2**63))
            suffix = f"{chance.choice('eE')}{chance.choice(('', '+')) if power >= 0 else '-'}"
            suffix += "0" * chance.choice((0, 0, 2, 30)) + str(abs(power))
        yield chance.choice(("", "", "", "+", "-")) + number + suffix


def differences(answers: Iterator[tuple[str, str]]) -> Iterator[str]:
    """Return the texts that are read otherwise than in the answers, which are a number, or a dash for a refusal."""
    for text, answer in answers:
        try:
            value = quantities.parse(text)
            differs = answer == "-" or value != Decimal(answer)
        except quantities.InvalidQuantity:
            value, differs = None, answer != "-"
        if differs:
            yield f"{text!r}: seen {value}, want {answer}"


def frozen() -> Iterator[tuple[str, str]]:
    """Return the frozen texts with their answers."""
    for line in FROZEN.read_text(encoding="utf-8").splitlines():
        text, _, answer = line.partition("\t")
        yield text, answer


def main() -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.corpora.quantities", description=__doc__)
    parser.add_argument("--write", action="store_true", help="freeze the answers to some of the texts")
    write = parser.parse_args().write
    requested = list(dict.fromkeys(texts(108_000)))
    go = subprocess.run(
        ["go", "run", FOLDER / "parse.go"],
        cwd=MODULE, input="\n".join(requested), stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    answered = list(zip(requested, go.stdout.splitlines(), strict=True))
    if write:
        lines = [f"{text}\t{answer}\n" for text, answer in answered[:: len(answered) // 1500]]
        FROZEN.write_text("".join(lines), encoding="utf-8")
    different = list(differences(iter(answered)))
    print(f"{len(answered)} texts, {len(different)} read otherwise", *different[:20], sep="\n")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
