"""Run a program of the manager in the thread of a test, as signals are handled there, with a script beside it."""

import asyncio
import contextlib
import gc
import json
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx2
import prometheus_client
from prometheus_client import metrics

from manager.events import EventRecorder

STOP = (signal.SIGTERM, signal.SIGINT)
_GIVE_UP = signal.SIGUSR1
_SECONDS = 15.0


class Interrupted(Exception):
    """A signal that the program does not handle, or the last one to a program that does not end."""


async def posted(recorder):
    """Post the Events that are queued now."""
    while not recorder._waiting.empty():
        await EventRecorder.event(recorder, *recorder._waiting.get_nowait())


class InThread:
    """A server on an event loop of its own, in another thread: the program under test runs its loops itself."""

    def __init__(self, server, loop):
        self.server = server
        self._loop = loop

    def call(self, function, *arguments, **more):
        """Call a function of the server in its loop; return the result."""

        async def called():
            return function(*arguments, **more)

        return asyncio.run_coroutine_threadsafe(called(), self._loop).result(_SECONDS)


@contextlib.contextmanager
def serving(running):
    """Run a server, given as an asynchronous context manager, in another thread."""
    started, done, made = threading.Event(), threading.Event(), []

    async def serve():
        async with running as server:
            made.append(InThread(server, asyncio.get_running_loop()))
            started.set()
            await asyncio.to_thread(done.wait)

    thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
    thread.start()
    try:
        assert started.wait(_SECONDS)
        yield made[0]
    finally:
        done.set()
        thread.join(_SECONDS)


@contextlib.contextmanager
def restored():
    """Undo what a program does to its process. A signal that it does not handle is raised as Interrupted."""

    def interrupt(number, _frame):
        raise Interrupted(signal.Signals(number).name)

    handlers = {number: signal.signal(number, interrupt) for number in (*STOP, _GIVE_UP)}
    threshold, has_created = gc.get_threshold(), metrics._use_created
    prometheus_client.enable_created_metrics()
    try:
        yield
    finally:
        metrics._use_created = has_created
        gc.set_threshold(*threshold)
        gc.unfreeze()
        for number, handler in handlers.items():
            signal.signal(number, handler)


def until(true):
    """Wait until a condition holds. One that cannot be evaluated yet does not hold."""
    deadline = time.monotonic() + _SECONDS
    while True:
        with contextlib.suppress(KeyError, httpx2.HTTPError):
            if true():
                return
        assert time.monotonic() < deadline, "the condition does not hold"
        time.sleep(0.01)


def run(program, script, stop=signal.SIGTERM):
    """Call a program, and a script beside it that is followed by the signal; return the exit code.

    Without a signal the program has to end by itself.
    """
    ended = threading.Event()

    def beside():
        try:
            script()
        finally:
            if stop is not None and not ended.is_set():
                os.kill(os.getpid(), stop)
            if not ended.wait(_SECONDS):
                os.kill(os.getpid(), _GIVE_UP)

    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(beside)
        try:
            code = program()
        finally:
            ended.set()
        following.result()
    return code


def get(port, path):
    """Return status and text of a page of loopback."""
    answer = httpx2.get(f"http://127.0.0.1:{port}{path}", timeout=_SECONDS, trust_env=False)
    return answer.status_code, answer.text.rstrip("\n")


def write_kubeconfig(folder, server, **of_cluster):
    """Write a kubeconfig for a server; return its path."""
    path = folder / "kubeconfig"
    path.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": server, **of_cluster}}],
        "users": [{"name": "test", "user": {"token": "x"}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    }))  # fmt: skip
    return path
