"""The process of the limiter: a round every second until SIGTERM, then the values of the kubelet again.

It opens no connection. A round that hangs ends the process, and so does a removed folder: the container is then started
again with the folder of that time.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import logging
import signal
import time
from pathlib import Path
from typing import Final

from koordlet.cli.limiter import groups, replaced_file
from koordlet.cli.limiter.groups import Groups, NoGroups
from koordlet.cli.limiter.limiter import Limiter
from koordlet.cli.limiter.settings import LimiterSettings

log = logging.getLogger(__name__)

ROUND_SECONDS: Final = 1.0
_STUCK_SECONDS: Final = 60
_STOP: Final = (signal.SIGTERM, signal.SIGINT)


def run(settings: LimiterSettings) -> int:
    """Run until SIGTERM or SIGINT. Return 0, or 1 where the folders are not those of BestEffort pods."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP)
    try:
        with contextlib.ExitStack() as stack:
            controllers = {
                "cpu": Groups(Path(settings.cpu_folder), groups.CPU),
                "memory": Groups(Path(settings.memory_folder), groups.MEMORY),
            }
            for each in controllers.values():
                stack.callback(each.close)
            record = Path(f"{settings.status_file}.limited") if settings.status_file else None
            limiter = Limiter(Path(settings.input_file), controllers, record)
            stack.callback(faulthandler.cancel_dump_traceback_later)
            stack.callback(limiter.restore)
            log.info("limiting the Mid pods below %s and %s", settings.cpu_folder, settings.memory_folder)
            is_stopped = False
            while not is_stopped:
                faulthandler.dump_traceback_later(_STUCK_SECONDS, exit=True)
                limiter.round(time.monotonic(), time.time())
                _write_status(settings.status_file, limiter)
                is_stopped = signal.sigtimedwait(_STOP, ROUND_SECONDS) is not None
    except NoGroups as error:
        log.error("%s", error)  # noqa: TRY400  # the message is complete
        return 1
    return 0


def _write_status(file: str, limiter: Limiter) -> None:
    if file:
        content = {"limited": limiter.limited, "problems": limiter.problems}
        with contextlib.suppress(OSError):  # the log has the same
            replaced_file.replace(file, json.dumps(content).encode())
