"""The end of the server of probes and metrics, and of an answer whose client is gone."""

import asyncio
import contextlib
import gc
import socket
import threading

from component_base import http_server
from tests.component_base.serving import until


def fine(_query):
    return http_server.Page("text/plain", b"fine\n")


def server_of(routes):
    opened = socket.create_server(("127.0.0.1", 0))
    opened.setblocking(False)
    return http_server.HttpServer([http_server.Listener(opened, routes, seconds=60.0)]), opened.getsockname()


def asking(address, path):
    client = socket.create_connection(address, timeout=5)
    client.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
    return client


def test_a_stop_waits_for_no_page_makes_no_other_one_and_leaves_no_thread():
    going_on, began, ended = threading.Event(), threading.Semaphore(0), []
    workers = []

    def slow(_query):
        workers.append(threading.current_thread())
        began.release()
        going_on.wait(5)
        ended.append(1)
        return fine({})

    server, address = server_of({"/slow": slow, "/healthz": fine})
    server.start()
    with contextlib.ExitStack() as ends:
        clients = [ends.enter_context(asking(address, "/slow")) for _ in range(http_server._WORKERS + 2)]
        for _ in range(http_server._WORKERS):
            assert began.acquire(timeout=5)
        until(lambda: server._workers._work_queue.qsize() == 2)
        server.stop()
        assert ended == []
        for client in clients:
            with contextlib.suppress(ConnectionResetError):
                assert client.recv(1) == b""
        going_on.set()
        for worker in workers:
            worker.join(5)
    assert len(ended) == http_server._WORKERS
    assert not any(worker.is_alive() for worker in workers)


def test_no_client_is_accepted_during_the_stop_and_left_open():
    opened = socket.create_server(("127.0.0.1", 0))
    opened.setblocking(False)
    server = http_server.HttpServer([http_server.Listener(opened, {"/healthz": fine}, seconds=60.0)])

    address = opened.getsockname()

    async def connect_while_stopping(ends):
        serving = asyncio.create_task(server._serve())
        for _ in range(10):
            await asyncio.sleep(0)
        server._stopping.set()
        clients = []
        while not serving.done():
            with contextlib.suppress(ConnectionRefusedError):
                clients.append(ends.enter_context(socket.create_connection(address, timeout=5)))
            await asyncio.sleep(0)
        return clients

    with contextlib.ExitStack() as ends:
        with contextlib.closing(server._loop):
            clients = server._loop.run_until_complete(connect_while_stopping(ends))
        gc.collect()  # a socket that is left open is a warning, and a warning an error
        assert clients
        for client in clients:
            with contextlib.suppress(ConnectionResetError):
                assert client.recv(1) == b""


def test_a_page_whose_client_went_away_is_made_no_further_and_worth_no_line(caplog):
    made, closed = [], threading.Event()

    def body():
        try:
            while True:
                made.append(1)
                yield b"x" * 65536
        finally:
            closed.set()

    def get(path):
        with asking(address, path) as client:
            return client.makefile("rb").read()

    def is_paused():
        before = len(made)
        return all(get("/other") for _ in range(20)) and before == len(made) > 0

    server, address = server_of({"/endless": lambda _query: http_server.Page("text/plain", body()), "/other": fine})
    server.start()
    try:
        with asking(address, "/endless") as client:
            assert client.recv(100)
            until(is_paused)
            assert not closed.is_set()
        until(lambda: gc.collect() >= 0 and closed.is_set())
    finally:
        server.stop()
    assert caplog.messages == []


def test_a_process_that_ends_without_a_stop_does_not_wait_for_the_server():
    server, _address = server_of({"/healthz": fine})
    server.start()
    try:
        (thread,) = (each for each in threading.enumerate() if each.name == "http-endpoint")
        assert thread.daemon
    finally:
        server.stop()
    assert not thread.is_alive()


def test_a_stop_takes_some_turns_of_the_loop_and_no_pause():
    server, _address = server_of({"/healthz": fine})

    async def turns_of_a_stop():
        serving = asyncio.create_task(server._serve())
        for _ in range(10):
            await asyncio.sleep(0)
        server._stopping.set()
        turns = 0
        while not serving.done():
            await asyncio.sleep(0)
            turns += 1
        await serving
        return turns

    with contextlib.closing(server._loop):
        assert server._loop.run_until_complete(turns_of_a_stop()) < 50
