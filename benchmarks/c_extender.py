"""Extender in C without any work (`c_extender.c`), compiled with the system's `cc`."""

from __future__ import annotations

import contextlib
import pathlib
import subprocess
import tempfile
from collections.abc import Iterator, Mapping

_SOURCE = pathlib.Path(__file__).with_name("c_extender.c")


@contextlib.contextmanager
def running(responses: Mapping[str, bytes] | None = None, *, port: int = 0) -> Iterator[int]:
    """Run it and yield its port. `responses` by verb (filter, prioritize) make it an echo of these bytes."""
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder, "c_extender")
        subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", program, _SOURCE], check=True)
        arguments = [str(program), "--port", str(port)]
        for verb, response in (responses or {}).items():
            file = pathlib.Path(folder, verb)
            file.write_bytes(response)
            arguments += [f"--{verb}-response", str(file)]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                yield int(process.stdout.readline())
            finally:
                process.terminate()
