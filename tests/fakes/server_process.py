"""A server of tests and benchmarks in a process of its own, so that it shares no interpreter with what is measured."""

from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Concatenate, ParamSpec

import psutil

Given = ParamSpec("Given")


@contextlib.contextmanager
def running(
    serve: Callable[Concatenate[Connection, Given], None], *arguments: Given.args, **named: Given.kwargs
) -> Iterator[tuple[int, psutil.Process]]:
    """Run `serve`, which sends its port through the connection it gets; yield the port and the process."""
    receiver, sender = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=serve, args=(sender, *arguments), kwargs=named, daemon=True
    )
    process.start()
    try:
        yield receiver.recv(), psutil.Process(process.pid)
    finally:
        process.terminate()
        process.join()
