"""Pods of a node for tests: by default Prod, running, one core and one GiB requested."""

from dataclasses import dataclass

from api_types.kubernetes.priority_and_qos import PriorityClass
from koordlet.prediction.allocation import ChargedPod, Owner


@dataclass(frozen=True)
class Pod:
    uid: str
    priority_class: PriorityClass = PriorityClass.PROD
    cpu_request_millis: int = 1000
    memory_request_bytes: int = 2**30
    mid_cpu_request_millis: int = 0
    mid_memory_request_bytes: int = 0
    cpu_limit_millis: int | None = None
    is_admitted: bool = True
    is_terminated: bool = False
    owner: Owner | None = None
    key = ChargedPod.key
    request = ChargedPod.request
