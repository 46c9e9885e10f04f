"""Settings of the limiter's process."""

from __future__ import annotations

from typing import Final

import pydantic

from component_base import logs, settings

ENV_PREFIX: Final = "LIMITER"


class LimiterSettings(settings.Settings):
    """Settings, validated once at start, frozen."""

    input_file: str = pydantic.Field("/run/koord-limiter/mid-pods.json", min_length=1)
    """File with the Mid pods of the node, which the agent writes (its setting limiter-file)."""
    cpu_folder: str = pydantic.Field("/cgroup/cpu/besteffort", min_length=1)
    """Folder of the BestEffort pods in the CPU controller."""
    memory_folder: str = pydantic.Field("/cgroup/memory/besteffort", min_length=1)
    """Folder of the BestEffort pods in the memory controller; with cgroup v2 that of the CPU controller."""
    status_file: str = ""
    """File for the number of limited pods and for problems, as JSON; empty writes none.

    Beside it, with the ending .limited, is the record of the pods that may have limits, for the start after a kill."""
    log_format: logs.LogFormat = logs.LogFormat.TEXT
    """Format of log lines: text or json."""
    log_level: logs.LogLevel = logs.LogLevel.INFO
    """Lowest level of log lines: debug, info, warning or error."""
