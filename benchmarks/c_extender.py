"""The do-nothing extender in C (`c_extender.c`): compiled with the system's `cc`, run for as long as it is needed."""

from __future__ import annotations

import contextlib
import pathlib
import subprocess
import tempfile
from collections.abc import Iterator, Mapping

_SOURCE = pathlib.Path(__file__).with_name("c_extender.c")


@contextlib.contextmanager
def running(answers: Mapping[str, bytes] | None = None, *, port: int = 0) -> Iterator[int]:
    """Run it; the port it listens on. `answers` by verb (filter, prioritize) make it an echo of these bytes."""
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder, "c_extender")
        subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", program, _SOURCE], check=True)
        arguments = [str(program), "--port", str(port)]
        for verb, answer in (answers or {}).items():
            file = pathlib.Path(folder, verb)
            file.write_bytes(answer)
            arguments += [f"--{verb}-answer", str(file)]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                yield int(process.stdout.readline())
            finally:
                process.terminate()
