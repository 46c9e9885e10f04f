"""`koordctl convert` on files."""

import errno
import io
import os
import pathlib
import subprocess
import sys
import types

import pytest
import yaml

from koordctl import __main__ as koordctl

POD = """\
# A job. {comment}
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  priorityClassName: {of_class} # one line
  containers:
  - name: c
    resources: {{limits: {{cpu: "1", memory: 1Gi}}}}
"""


@pytest.fixture
def write(tmp_path):
    def write(name, text=None, of_class="koord-mid"):
        path = tmp_path / name
        path.write_text(POD.format(name=name, comment="kept", of_class=of_class) if text is None else text)
        return path

    return write


def run(capsys, *arguments):
    code = koordctl.main(["convert", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_result_goes_to_standard_output_and_the_changes_beside_it(capsys, write):
    one, two = write("one"), write("two", of_class="koord-prod")
    code, out, err = run(capsys, one, two)
    assert code == 0
    first, second = yaml.safe_load_all(out)
    assert first["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "0"
    assert second == yaml.safe_load(two.read_text())
    assert out.count("# A job. kept") == 2
    assert f"--- {one}" in err
    assert str(two) not in err
    assert "kubernetes.io/mid-cpu" not in one.read_text()


def test_in_place_replaces_changed_files_with_their_permissions_and_no_others(capsys, write):
    one, two = write("one"), write("two", of_class="koord-prod")
    one.chmod(0o640)
    before = two.stat()
    link = one.with_name("link")
    link.symlink_to(one)
    code, out, _ = run(capsys, "--in-place", link, two)
    assert (code, out) == (0, "")
    assert "kubernetes.io/mid-cpu" in one.read_text()
    assert link.is_symlink()
    assert one.stat().st_mode & 0o777 == 0o640
    assert two.stat() == before
    assert sorted(path.name for path in one.parent.iterdir()) == ["link", "one", "two"]
    again = one.read_bytes()
    assert run(capsys, "--in-place", one)[0] == 0
    assert one.read_bytes() == again


def test_where_one_file_cannot_be_written_none_is_and_the_error_names_it(capsys, write):
    long = "x" * 250  # the new file beside it would have a longer name than a file system permits
    files = [write("one"), write(long)]
    before = [path.read_bytes() for path in files]
    code, out, err = run(capsys, "--in-place", *files)
    assert (code, out) == (2, "")
    assert "File name too long" in err
    assert "written: nothing; want folders in which files can be created" in err
    assert [path.read_bytes() for path in files] == before
    assert sorted(path.name for path in files[0].parent.iterdir()) == ["one", long]


def test_a_file_that_was_replaced_before_an_error_is_named(capsys, write, monkeypatch):
    one, two = write("one"), write("two")
    replace = pathlib.Path.replace

    def replaced(new, path):
        if path == two:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(path))
        return replace(new, path)

    monkeypatch.setattr(pathlib.Path, "replace", replaced)
    code, _, err = run(capsys, "--in-place", one, two)
    assert code == 2
    assert f"busy: '{two}'; written: {one}; want folders" in err
    assert "kubernetes.io/mid-cpu" in one.read_text()
    assert "kubernetes.io/mid-cpu" not in two.read_text()
    assert sorted(path.name for path in one.parent.iterdir()) == ["one", "two"]


def test_nothing_is_written_where_one_object_is_refused(capsys, write):
    one, bad = write("one"), write("bad", "kind: Pod\nspec: {priorityClassName: koord-mid, containers: 3}\n")
    before = one.read_text()
    for arguments in (["--in-place"], []):
        code, out, err = run(capsys, *arguments, one, bad)
        assert (code, out) == (1, "")
        assert f"{bad}: Pod without a name: spec.containers: seen 3, want a list" in err
        assert "nothing was written" in err
        assert one.read_text() == before


def test_advice_is_printed_and_the_result_is_written(capsys, write):
    path = write("one", POD.replace(", memory: 1Gi", "").format(name="x", comment="", of_class="koord-mid"))
    code, out, err = run(capsys, path)
    assert code == 0
    assert "kubernetes.io/mid-cpu" in out
    assert f"koordctl: {path}: Pod x: container c has no limit of memory" in err


def test_a_text_that_cannot_be_edited_is_refused(capsys, write):
    shared = "resources: &shared {limits: {cpu: 1, memory: 1Gi}}\n  - name: d\n    resources: *shared"
    text = POD.replace('resources: {{limits: {{cpu: "1", memory: 1Gi}}}}', shared.replace("{", "{{").replace("}", "}}"))
    bad = write("bad", text.format(name="x", comment="", of_class="koord-mid"))
    code, out, err = run(capsys, write("one"), bad)
    assert (code, out) == (1, "")
    assert f"{bad}: spec.containers[0].resources" in err
    assert "shares an anchor" in err


@pytest.mark.parametrize("is_replaced", [False, True])
def test_an_interrupted_replacement_leaves_no_other_file(capsys, monkeypatch, write, is_replaced):
    path, replace = write("one"), pathlib.Path.replace
    before = path.read_text()

    def interrupted(self, target):
        if is_replaced:
            replace(self, target)
        raise KeyboardInterrupt

    monkeypatch.setattr(pathlib.Path, "replace", interrupted)
    assert run(capsys, "--in-place", path)[0] == 130
    assert [each.name for each in path.parent.iterdir()] == ["one"]
    assert (path.read_text() != before) == is_replaced


def test_only_the_changes_are_printed_on_demand(capsys, write):
    code, out, err = run(capsys, "--diff", write("one"))
    assert (code, err) == (0, "")
    assert out.startswith("---")
    assert "+  schedulerName: koord-scheduler" in out
    assert "schedulerName" not in run(capsys, "--diff", "--scheduler", "", write("one"))[1]


def test_standard_input_is_a_file_but_for_in_place(capsys, monkeypatch):
    stdin = types.SimpleNamespace(buffer=io.BytesIO(POD.format(name="x", comment="ä", of_class="koord-mid").encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    code, out, _ = run(capsys, "-")
    assert code == 0
    assert "# A job. ä" in out
    assert run(capsys, "-i", "-")[0] == 2


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00", "folder"])
def test_a_file_that_cannot_be_read_is_named(capsys, tmp_path, content):
    path = tmp_path / "file"
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    code, out, err = run(capsys, path)
    assert (code, out) == (2, "")
    assert "want readable files in UTF-8" in err


def test_another_mid_class_is_converted_on_demand(capsys, write):
    path = write("one", of_class="low-mid")
    assert "mid-cpu" not in run(capsys, path)[1]
    assert "mid-cpu" in run(capsys, "--mid-class", "low-mid", path)[1]
    assert "mid-cpu" not in run(capsys, path)[1]


def test_aliases_that_expand_to_too_many_values_are_refused(write, capsys):
    text = "kind: List\nx0: &x0 [a]\n" + "".join(f"x{n}: &x{n} [*x{n - 1}, *x{n - 1}]\n" for n in range(1, 40))
    code, out, err = run(capsys, "--diff", write("bomb", f"{text}items: *x39\n"))
    assert (code, out) == (1, "")
    assert "want the values written out" in err


def test_names_in_messages_do_not_reach_the_terminal(write, capsys):
    name = '"x\\e]0;OWNED\\a\\e[2J"'
    pod = POD.replace('{{cpu: "1"', '{{kubernetes.io/mid-cpu: "500m"').format(
        name=name, comment="", of_class="koord-mid"
    )
    code, _, err = run(capsys, write("pod", pod))
    assert code == 1
    assert "OWNED" in err
    assert "\x1b" not in err


@pytest.mark.slow
@pytest.mark.parametrize("flags", [[], ["--diff"]])
def test_the_output_is_utf_8_whatever_the_locale(write, flags):
    path = write("pod", POD.replace("one line", "größer").format(name="a", comment="", of_class="koord-mid"))
    done = subprocess.run(
        [sys.executable, "-m", "koordctl", "convert", *flags, path], capture_output=True, check=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert "größer" in done.stdout.decode()
