"""Load the settings of a process into one pydantic model, from flags, environment variables and a file.

Precedence: flag, environment variable, `--settings-file`, default. A field `probe_port` is the flag `--probe-port`,
the variable `<PREFIX>_PROBE_PORT` and the key `probe-port` of the file. Each field's description is its line in
`--help`. All errors are reported together, each with the source of the value, the value seen and the value wanted.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pydantic
import yaml
from pydantic_core import PydanticUndefined

from api_types.kubernetes import yaml_text
from api_types.wire_model import without_credentials
from component_base import logs

ModelT = TypeVar("ModelT", bound=pydantic.BaseModel)


class SettingsError(Exception):
    """Invalid settings; `problems` has one line for each problem."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class Settings(pydantic.BaseModel):
    """Base of the settings of a component: frozen, unknown keys refused, the docstring of a field is its help text."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    @pydantic.field_validator("*", mode="before")
    @classmethod
    def _reject_bool_for_number(cls, value: Any, info: pydantic.ValidationInfo) -> Any:
        """Reject a boolean for a number: `http-port: true` in a file would be port 1."""
        if isinstance(value, bool) and cls.model_fields[str(info.field_name)].annotation in {int, float}:
            raise ValueError("want a number")
        return value


class ProcessSettings(Settings):
    """Settings of every program that talks to an API server."""

    kubeconfig: str = ""
    """Kubeconfig file; empty means KUBECONFIG, then the pod's service account, then ~/.kube/config."""
    log_format: logs.LogFormat = logs.LogFormat.TEXT
    """Format of log lines: text or json."""
    log_level: logs.LogLevel = logs.LogLevel.INFO
    """Lowest level that is logged: debug, info, warning or error."""


def listed(text: str) -> list[str]:
    """Return the words of a text, separated by commas."""
    return [word.strip() for word in text.split(",") if word.strip()]


def _kebab(field: str) -> str:
    return field.replace("_", "-")


def _variable(prefix: str, field: str) -> str:
    return f"{prefix}_{field}".upper()


def add_arguments(parser: argparse.ArgumentParser, model: type[Settings], env_prefix: str) -> None:
    """Add one flag for each field of the model, and `--settings-file`, to the parser."""
    parser.add_argument(
        "--settings-file",
        metavar="FILE",
        help=f"YAML file with the same names as the flags (environment: {env_prefix}_SETTINGS_FILE)",
    )
    for field, info in model.model_fields.items():
        default = info.get_default(call_default_factory=True, validated_data={})
        shown = "required" if default is PydanticUndefined else f"default: {json.dumps(default, default=str)}"
        text = f"{info.description or ''} ({shown}; environment: {_variable(env_prefix, field)})".replace("%", "%%")
        if info.annotation is bool:
            parser.add_argument(
                f"--{_kebab(field)}", default=None, action=argparse.BooleanOptionalAction, help=text, dest=field
            )
        else:
            parser.add_argument(
                f"--{_kebab(field)}", default=None, metavar=field.split("_")[-1].upper(), help=text, dest=field
            )


def from_sources(
    model: type[ModelT], arguments: argparse.Namespace, environ: Mapping[str, str], env_prefix: str
) -> ModelT:
    """Merge the sources and validate. Raises SettingsError with every problem."""
    file_name = arguments.settings_file or environ.get(f"{env_prefix}_SETTINGS_FILE")
    problems: list[str] = []
    layers: list[tuple[str, Any, str]] = []
    try:
        in_file = _file_values(file_name)
        layers += ((key.replace("-", "_"), value, f"{key} in {file_name}") for key, value in in_file.items())
    except SettingsError as error:
        problems += error.problems
    values: dict[str, Any] = {}
    origin: dict[str, str] = {}
    for field, value, source in (*layers, *_above_the_file(model, arguments, environ, env_prefix)):
        values[field] = value
        origin[field] = source
    try:
        loaded = model.model_validate(values)
    except pydantic.ValidationError as error:
        # A missing key may be in the file that cannot be read.
        items = [item for item in error.errors() if not (problems and item["type"] == "missing")]
        raise SettingsError([*problems, *(_line(item, origin, env_prefix) for item in items)]) from error
    if problems:
        raise SettingsError(problems)
    return loaded


def _above_the_file(
    model: type[pydantic.BaseModel], arguments: argparse.Namespace, environ: Mapping[str, str], env_prefix: str
) -> Iterator[tuple[str, Any, str]]:
    for field in model.model_fields:
        if (value := environ.get(_variable(env_prefix, field))) is not None:
            yield field, value, f"environment variable {_variable(env_prefix, field)}"
    for field in model.model_fields:
        if (value := getattr(arguments, field, None)) is not None:
            yield field, value, f"flag --{_kebab(field)}"


def _file_values(file_name: str | None) -> dict[str, Any]:
    if not file_name:
        return {}
    try:
        content = yaml_text.load(Path(file_name).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError([f"cannot read the settings file {file_name}: {error}"]) from error
    except yaml.YAMLError as error:
        raise SettingsError([f"the settings file {file_name} is not YAML: {' '.join(str(error).split())}"]) from error
    if content is None:
        return {}
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise SettingsError(
            [f"the settings file {file_name} contains {type(content).__name__}, want a mapping of names"]
        )
    return content


def _line(item: Any, origin: Mapping[str, str], env_prefix: str) -> str:
    field = str(item["loc"][0]) if item["loc"] else ""
    if item["type"] == "missing":
        return f"{_kebab(field)} is not set: give --{_kebab(field)} or {_variable(env_prefix, field)}"
    if item["type"] == "extra_forbidden":
        return f"{origin.get(field, field)} is not a setting: see --help for the names"
    seen = without_credentials(repr(item["input"]))
    return f"{origin.get(field, _kebab(field) or 'settings')} is {seen}: {item['msg']}"
