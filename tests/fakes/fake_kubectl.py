"""A kubectl on PATH that is a script: it notes its process and its arguments, and runs the given code."""

import os
import stat
import sys

SERVES = """
import http.server
class Pages(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(302 if self.path == "/moved" else 200)
        self.send_header("Location", "/else")
        self.end_headers()
        if self.path == "/large":
            for _ in range(9):
                self.wfile.write(b"x" * 2**20)
        elif self.path == "/slow":
            time.sleep(600)
        else:
            self.wfile.write(self.path.encode())
    def log_message(self, *given):
        print("Handling connection", "x" * 10_000, flush=True)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
print(f"Forwarding from 127.0.0.1:{server.server_port} -> 10263", flush=True)
print(f"Forwarding from [::1]:{server.server_port} -> 10263", flush=True)
server.serve_forever()
"""
"""Code of a forward to a pod that answers with the path."""


def install(folder, monkeypatch, code):
    """Install it; return the file of `[process, arguments]`."""
    own, ran = folder / "bin", folder / "ran"
    own.mkdir(exist_ok=True)
    monkeypatch.setenv("PATH", f"{own}{os.pathsep}{os.environ['PATH']}")
    note = f"json.dump([os.getpid(), sys.argv[1:]], open({str(ran)!r}, 'w'))"
    head = f"#!{sys.executable}\nimport json, os, signal, sys, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    file = own / "kubectl"
    file.write_text(f"{head}{note}\n{code}")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return ran


def serving(page, status=200):
    """Return the code of a forward to a pod that answers every path with a page."""
    return SERVES.replace("self.wfile.write(self.path.encode())", f"self.wfile.write({page!r})").replace(
        "else 200)", f"else {status})"
    )
