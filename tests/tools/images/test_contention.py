"""The service and the antagonist of the workload image."""

import json
import subprocess
import sys
import time

import pytest

from tools.images.recipes import HERE

pytestmark = pytest.mark.slow

PROGRAM = HERE / "workload" / "contention.py"


def run(*words):
    command = [sys.executable, "-I", "-S", PROGRAM, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=50)


def test_every_request_counts_also_those_that_a_busy_service_begins_late():
    """20 requests of about 15 ms (8 at least) arrive within 0.1 s: the last one waits for all before it."""
    (iterations,) = json.loads(run("calibrate", "--work-micros=15000").stdout).values()
    served = run("serve", f"--at={time.time() + 2}", "--seconds=0.1", "--workers=1", "--period-millis=5",
                 f"--iterations={iterations}")  # fmt: skip
    found = json.loads(served.stdout)
    assert found["requests"] == 20
    assert found["longest"] > 20 * 8_000 - 95_000
    assert found["p50"] <= found["p90"] <= found["p99"] <= found["longest"]


def test_a_late_start_is_an_error_and_no_latency():
    served = run("serve", f"--at={time.time() - 1}", "--seconds=0.1", "--iterations=1")
    assert served.returncode != 0
    assert "late: " in served.stderr


def test_the_antagonist_uses_the_cpu_until_the_end():
    filled = json.loads(run("fill", f"--at={time.time() + 0.5}", "--seconds=0.5", "--workers=1").stdout)
    assert filled["cpu_seconds"] > 0.1
