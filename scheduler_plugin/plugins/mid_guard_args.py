"""Arguments of MidGuard: the quotas of namespaces on Mid resources."""

from __future__ import annotations

from typing import Any, Self

import pydantic
from pydantic.alias_generators import to_camel

from api_types.colocation import problem
from api_types.colocation.problem import Problem
from api_types.mid_pods import quota
from api_types.mid_pods.quota import MidQuota


class MidGuardArgs(pydantic.BaseModel):
    """Arguments as an administrator writes them."""

    model_config = pydantic.ConfigDict(
        alias_generator=to_camel, extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True
    )

    default_quota: dict[str, Any] | None = None
    """The most Mid resources that the pods of one namespace may hold, for each namespace without the annotation
    `koordinator.sh/mid-quota`: {cpu: "20", memory: 64Gi}. An absent resource is not limited. Default: none is."""
    namespace_quotas: bool = True
    """Whether the annotation of Namespaces counts. It needs the permission to list and watch Namespaces; without it no
    new Mid pod is accepted."""

    def with_defaults(self) -> Self:
        """Return the arguments: each has its default already."""
        return self

    def quota(self) -> MidQuota:
        """Return the default quota. Raises MalformedQuota."""
        return quota.from_document(self.default_quota or {})


def problems(args: MidGuardArgs) -> list[Problem]:
    """Return the problems of the arguments."""
    try:
        args.quota()
    except quota.MalformedQuota:
        return [problem.problem(("defaultQuota",), args.default_quota, quota.WANTED)]
    return []
