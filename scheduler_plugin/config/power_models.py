"""Load the power models of Peaks from the JSON file NODE_POWER_MODEL, if its arguments have none (as upstream).

Separate from the arguments, which do no I/O.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pydantic

from scheduler_plugin.plugins.trimaran.args import PeaksArgs, PowerModel

VARIABLE: Final = "NODE_POWER_MODEL"


class NoPowerModel(ValueError):
    """There is no power model; the message states what is wanted."""


def with_models(args: PeaksArgs, environ: Mapping[str, str] = os.environ) -> PeaksArgs:
    """Return the arguments with models: their own, else those of the file. Raises NoPowerModel."""
    if args.node_power_model:
        return args
    file = environ.get(VARIABLE, "")
    try:
        content = Path(file).read_text(encoding="utf-8")
        models = pydantic.TypeAdapter(dict[str, PowerModel]).validate_json(content)
    except (OSError, UnicodeDecodeError) as error:
        raise NoPowerModel(f"power models by node name, here or in the file of {VARIABLE} ({error})") from error
    except pydantic.ValidationError as error:
        details = "; ".join(
            f"{'.'.join(map(str, item['loc'])) or 'the document'}: {item['msg']}" for item in error.errors()
        )
        raise NoPowerModel(f"k0, k1 and k2 by node name in {file} ({details})") from error
    return args.model_copy(update={"node_power_model": models})
