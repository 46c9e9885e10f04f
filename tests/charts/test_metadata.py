"""Chart.yaml, as a catalogue of charts reads it."""

import base64
import re
import xml.etree.ElementTree as ET

import yaml

from tests.charts import chart

METADATA = yaml.safe_load((chart.FOLDER / "Chart.yaml").read_text(encoding="utf-8"))


def test_the_icon_is_that_of_the_documentation():
    kind, _, data = METADATA["icon"].partition(";base64,")
    image = (chart.ROOT / "docs" / "assets" / "icon.svg").read_bytes()
    assert kind == "data:image/svg+xml"
    assert base64.b64decode(data) == image
    assert ET.fromstring(image).tag.endswith("svg")


def test_a_catalogue_finds_what_it_shows():
    assert {"description", "keywords", "maintainers", "kubeVersion", "icon"} <= set(METADATA)
    assert METADATA["annotations"]["artifacthub.io/license"] == "Apache-2.0"


def leaves(values=chart.VALUES, schema=chart.SCHEMA, path=""):
    """Yield the path of every value; an object of Kubernetes is one value."""
    for key, value in values.items():
        below = schema.get("properties", {}).get(key, {})
        while "$ref" in below:
            below = chart.SCHEMA["definitions"][below["$ref"].removeprefix("#/definitions/")]
        if isinstance(value, dict) and below.get("properties") and key not in ("affinity", "resources"):
            yield from leaves(value, below, f"{path}{key}.")
        else:
            yield path + key


def test_the_readme_and_the_page_have_every_value():
    pages = (chart.FOLDER / "README.md", chart.ROOT / "docs" / "reference" / "chart-values.md")
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert [path for path in leaves() if f"`{path}`" not in text] == []


def test_every_value_is_read_by_a_template():
    files = (chart.FOLDER / "templates").rglob("*.*")
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    read = set(re.findall(r"\.([A-Za-z]\w*)", text))
    document = "colocationConfig."
    unread = {path for path in leaves() if not path.startswith(document) and path.rpartition(".")[2] not in read}
    assert unread == set()
