"""Images without a container engine: equal inputs give equal digests, and what is wrong in a layout is named."""

import struct

import pytest

from tools.images import check, distributions, file_trees, layouts, loading, recipes
from tools.images.file_trees import PROGRAM, File
from tools.localcluster import content_cache, image_archives

WHEEL = "venv/lib/python3.11/site-packages/a-1.dist-info"
PLACE = "usr/local/bin/kube-scheduler"


def program(machine):
    """Return the head of an ELF file without segments."""
    return b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack("<HHI", 2, machine, 1).ljust(48, b"\0")


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Return a function that writes a layout of an image for arm64 with these files, in a cache of its own."""

    def write(tree, name="koord-scheduler", folder="one", tag="1.0-1.36"):
        monkeypatch.setattr(content_cache, "ROOT", tmp_path / folder / "cache")
        layer = file_trees.layer("test", tree)
        recipe = recipes.released().get(name, [recipes.scheduler(36)])[0]
        layers = [*(file_trees.layer("empty", {}) for _ in recipe.kinds()[1:]), layer]
        image = layouts.Assembled(layouts.configuration(recipe, "arm64", layers), layers)
        layouts.write_layout(tmp_path / folder / name, {tag: {"arm64": image}})
        return tmp_path / folder / name

    return write


def test_equal_files_give_equal_digests_in_another_folder_and_order(write):
    tree = {PLACE: File(program(183), PROGRAM), "etc/passwd": File(b"root\n"), "bin": File(link="usr/bin")}
    first, second = write(tree), write(dict(reversed(tree.items())), folder="two")
    assert (first / "index.json").read_text() == (second / "index.json").read_text()
    assert check.problems(first, ["arm64"]) == check.problems(second, ["arm64"]) == []
    assert check.problems(first) == ["koord-scheduler:1.0-1.36: seen arm64, want amd64, arm64"]


@pytest.mark.parametrize(
    ("tree", "problem"),
    [
        ({PLACE: File(program(62))}, f"{PLACE}: seen an ELF file of amd64, want arm64"),
        ({"usr/bin/nc": File(b"#!")}, "usr/bin/nc: of no listed package and no distribution"),
        ({"app/manager/x.py": File()}, "app/manager/x.py: want only the image's packages of this project"),
        ({"usr/bin/dash": File(link="sh")}, "a shell: want none"),
        (
            {
                f"{WHEEL}/METADATA": File(),
                f"{WHEEL}/WHEEL": File(b"Tag: cp311-cp311-manylinux_x86_64\n"),
                f"{WHEEL}/RECORD": File(b"a-1.dist-info/METADATA,,\na-1.dist-info/WHEEL,,\na-1.dist-info/RECORD,,\n"),
            },
            f"{WHEEL}/WHEEL: seen tags cp311-cp311-manylinux_x86_64, want one of aarch64 or of any platform",
        ),
    ],
)
def test_names_the_image_the_file_what_is_seen_and_what_is_wanted(write, tree, problem):
    assert check.problems(write(tree), ["arm64"]) == [f"koord-scheduler:1.0-1.36 arm64: {problem}"]


def test_a_missing_and_a_changed_layer_are_named(write):
    layout = write({PLACE: File(program(183))})
    (layer,) = (file for file in (layout / "blobs" / "sha256").iterdir() if file.read_bytes().startswith(b"\x1f\x8b"))
    digest = f"sha256:{layer.name}"
    layer.write_bytes(layer.read_bytes()[:-1] + b"x")
    assert [problem.partition(": seen")[0] for problem in check.problems(layout, ["arm64"])] == [
        f"koord-scheduler: blob {digest}"
    ]
    size = layer.stat().st_size
    layer.unlink()
    assert check.problems(layout, ["arm64"]) == [f"koord-scheduler: blob {digest}: missing, want {size} bytes"]


def test_what_is_no_image_of_a_release_and_a_release_without_some_image_are_named(write):
    layout = write({PLACE: File(program(183))}, "other")
    (problem,) = check.problems(layout)
    assert "other:1.0-1.36 is no image of a release" in problem
    (problem,) = check.problems_of_release(layout.parent)
    assert f"{layout.parent}: seen cache, other, want console, koord-scheduler, " in problem


def test_an_import_of_a_program_that_the_image_lacks_is_named(write):
    modules = {
        "__main__": b"import json, sys\nfrom console import a, b\n",
        "__init__": b"",
        "a": b"import sqlite3\ntry:\n    import kopf\nexcept ImportError:\n    kopf = None\n",
        "b": b"def later():\n    import rich\n\nimport lightkube.core\n",
        "c": b"import tkinter\n",
    }
    tree = {f"app/console/{name}.py": File(source) for name, source in modules.items()}
    named = [("__main__", "json"), ("a", "sqlite3"), ("b", "lightkube.core")]
    layout = write(tree, "console", tag="1.0")
    assert sorted(check.problems(layout, ["arm64"])) == [
        f"console:1.0 arm64: app/console/{file}.py: imports {module}: want it in the image" for file, module in named
    ]


def test_the_name_in_a_cluster_follows_from_what_is_in_the_image(tmp_path, monkeypatch):
    monkeypatch.setattr(content_cache, "ROOT", tmp_path)
    recipe = recipes.Recipe("koord-scheduler", ("/program",), debian_packages=())

    def archive(content):
        return loading.archive(recipe, [file_trees.layer("test", {PLACE: File(content, PROGRAM)})])

    first = archive(b"one")
    assert image_archives.read(first.file) == first
    assert first == archive(b"one")
    assert first.reference != archive(b"two").reference


def test_each_component_gets_its_own_libraries_and_the_agent_those_of_its_exporter():
    extras = {"koordlet": ["numpy"], "influxdb": ["influxdb-client"], "manager": ["kopf"], "scheduler": ["numpy"]}
    extras |= {"cli": ["rich"], "console": ["starlette"]}
    by_component = distributions.requirements(
        {"project": {"dependencies": ["lightkube"], "optional-dependencies": extras}}
    )
    assert by_component == {
        "console": ["lightkube", "starlette"],
        "koordlet": ["lightkube", "numpy", "influxdb-client"],
        "koordctl": ["lightkube", "numpy", "rich"],
        "manager": ["lightkube", "kopf", "rich"],
        "scheduler": ["lightkube", "numpy"],
    }
