"""Command `koordctl convert`: read manifests, print the changes, write the result."""

from __future__ import annotations

import difflib
import os
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple, TextIO

from click import Argument, Choice, Option

from api_types.mid_pods import policy, template
from api_types.mid_pods.resources import RulesRefused
from koordctl.cli import flags, output
from koordctl.cli.answer import FINE, NOTHING, WRONG_USAGE
from koordctl.convert import objects, yaml_edit
from koordctl.convert.objects import Options

STDIN: Final = "-"
_LONGEST_MESSAGE: Final = 2_000


class _Manifest(NamedTuple):
    name: str
    text: str


_Result = tuple[_Manifest, str]
"""A file, and its text after the conversion."""


PARAMETERS: Final = (
    Argument(
        ["files"],
        nargs=-1,
        required=True,
        type=flags.FILE,
        metavar="FILE...",
        help="YAML or JSON: objects with pod templates, ClusterColocationProfiles; - is standard input",
    ),
    Option(["-i", "--in-place"], is_flag=True, help="write the result to the files"),
    Option(["--diff"], is_flag=True, help="print the changes only"),
    Option(
        ["--scheduler"],
        metavar="NAME",
        default="koord-scheduler",
        show_default=True,
        help="scheduler of Mid pods that name none; '' keeps it",
    ),
    Option(["--mid-class"], multiple=True, metavar="NAME", help="another PriorityClass of Mid pods"),
    Option(
        ["--policy-version"], type=Choice(policy.VERSIONS), default="v1", help="API version of the policy of a profile"
    ),
)


def run(options: Namespace) -> int:
    """Run the command and return its exit code. Nothing is written where one object is refused."""
    if options.in_place and options.diff:
        return _fail("want one of --in-place and --diff", WRONG_USAGE)
    if options.in_place and STDIN in options.files:
        return _fail("--in-place: standard input has no place; want names of files", WRONG_USAGE)
    try:
        files = [_Manifest(name, _read(name)) for name in options.files]
    except (OSError, UnicodeDecodeError) as error:
        return _fail(f"{error}; want readable files in UTF-8", WRONG_USAGE)
    how = Options(options.scheduler, (*template.MID_CLASSES, *options.mid_class), options.policy_version)
    results, refusals = _converted(files, how)
    for text in refusals:
        _warn(text)
    if refusals:
        return _fail("nothing was written", NOTHING)
    _write(_diff(results), sys.stdout if options.diff else sys.stderr)
    if options.in_place:
        written: list[str] = []
        try:
            written.extend(_replaced(results))
        except OSError as error:
            done = ", ".join(written) or "nothing"
            return _fail(f"{error}; written: {done}; want folders in which files can be created", WRONG_USAGE)
    elif not options.diff:
        _write(_joined(text for _, text in results), sys.stdout)
    return FINE


def _converted(files: list[_Manifest], how: Options) -> tuple[list[_Result], list[str]]:
    """Return the results, and what is refused. Advice is printed."""
    refusals: list[str] = []
    parsed = []
    for file in files:
        try:
            parsed.append((file, yaml_edit.documents(file.text)))
        except RulesRefused as refused:
            refusals.append(f"{file.name}: {refused}")
    around = list(objects.flat(document.value for _, parsed_documents in parsed for document in parsed_documents))
    results = []
    for file, parsed_documents in parsed:
        converted = [objects.convert(document.value, how, around) for document in parsed_documents]
        refusals += [f"{file.name}: {text}" for result in converted for text in result.refusals]
        for result in converted:
            for text in result.advice:
                _warn(f"{file.name}: {text}")
        try:
            text = yaml_edit.edited(file.text, {number: result.objects for number, result in enumerate(converted)})
        except RulesRefused as refused:
            refusals.append(f"{file.name}: {refused}")
        else:
            results.append((file, text))
    return results, refusals


def _read(name: str) -> str:
    content = sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()
    return content.decode()


def _diff(results: list[_Result]) -> str:
    lines: list[str] = []
    for file, text in results:
        before, after = file.text.splitlines(keepends=True), text.splitlines(keepends=True)
        lines += difflib.unified_diff(before, after, file.name, f"{file.name} (converted)")
    return "".join(line.rstrip("\r\n") + "\n" for line in lines)


def _write(text: str, to: TextIO) -> None:
    """Write UTF-8, as the files are, whatever the locale is."""
    to.flush()
    to.buffer.write(text.encode("utf-8", "surrogateescape"))  # names of files may be any bytes
    to.buffer.flush()


def _joined(texts: Iterator[str]) -> str:
    """Join the texts of files into one stream of documents."""
    joined = ""
    for text in texts:
        if joined and not text.startswith("---"):
            joined += "---\n"
        joined += text if text.endswith("\n") or not text else f"{text}\n"
    return joined


def _replaced(results: list[_Result]) -> Iterator[str]:
    """Replace files as a whole, with their permissions, and yield their names. Files without changes are not touched.

    Raises OSError, and before the first is replaced where one cannot be written.
    """
    staged: list[tuple[Path, Path, str]] = []
    try:
        for file, text in results:
            if text == file.text:
                continue
            path = Path(file.name).resolve()
            descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
            staged.append((Path(temporary), path, file.name))
            with os.fdopen(descriptor, "wb") as new:
                new.write(text.encode())
            Path(temporary).chmod(path.stat().st_mode)
        for new_path, path, name in staged:
            new_path.replace(path)
            yield name
    finally:
        for new_path, *_ in staged:
            new_path.unlink(missing_ok=True)


def _fail(text: str, code: int) -> int:
    _warn(text)
    return code


def _warn(text: str) -> None:
    """Print a message; names in it are of manifests, which anyone may have written."""
    sys.stderr.write(f"koordctl: {output.printable(text, _LONGEST_MESSAGE)}\n")
