"""Let requests arrive at the pod demo/service for 5 s, and print how long they took, with all measurements before.

The demo copies this program to its folder. The arguments are the title of the row.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

_ARRIVALS: Final = ("--seconds=5", "--period-millis=20", "--workers=1")
_LEAD_SECONDS: Final = (3, 6, 12)
"""Time to start the program in the pod, longer after each start that was late."""
_ROWS: Final = Path("latency.json")


def kubectl(*words: str) -> str:
    """Run kubectl and return its output, empty where it failed."""
    return subprocess.run(["kubectl", *words], capture_output=True, text=True, check=False).stdout


def contention(*words: str) -> dict[str, Any]:
    """Run the program in the pod that works on requests; return nothing where it failed."""
    text = kubectl("--namespace=demo", "exec", "service", "--", "python3", "-S", "/contention.py", *words)
    return dict(json.loads(text or "{}"))


def main() -> None:
    """Measure, and print the table."""
    record = (
        json.loads(_ROWS.read_text(encoding="utf-8")) if _ROWS.exists() else {**contention("calibrate"), "rows": []}
    )
    for lead in _LEAD_SECONDS:
        arrivals = (f"--at={time.time() + lead}", f"--iterations={record['iterations']}", *_ARRIVALS)
        if served := contention("serve", *arrivals):
            break
    else:
        sys.exit("no measurement: the pod was too busy to start it")
    here = kubectl("--namespace=demo", "get", "pod", "service", "--output=jsonpath={.spec.nodeName}")
    running = ("--selector=app=mid-worker", f"--field-selector=status.phase=Running,spec.nodeName={here}")
    mid_pods = len(kubectl("--namespace=default", "get", "pods", *running, "--output=name").split())
    record["rows"].append([" ".join(sys.argv[1:]), mid_pods, served["p50"] / 1000, served["p99"] / 1000])
    _ROWS.write_text(json.dumps(record), encoding="utf-8")
    print(f"{'':<32}{'Mid pods':>10}{'p50 ms':>10}{'p99 ms':>10}")
    for title, pods, p50, p99 in record["rows"]:
        print(f"{title:<32}{pods:>10}{p50:>10.2f}{p99:>10.2f}")


if __name__ == "__main__":
    main()
