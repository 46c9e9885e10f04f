"""What users install and read is what the code generates: the CRD, policies, schemas, alerts, dashboards and tables."""

from crds import generate


def test_every_generated_file_has_the_content_of_its_generator():
    generated = generate.generated()
    assert generate.ROOT / "crds" / generate.FILE in generated
    stale = [
        path.relative_to(generate.ROOT).as_posix()
        for path, content in generated.items()
        if path.read_text(encoding="utf-8") != content
    ]
    assert stale == [], "run `make update` and commit the result"
