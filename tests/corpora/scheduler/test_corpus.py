"""The product answers every case of the frozen corpus as it did when the corpus was made."""

import pytest

from tests.corpora.scheduler import __main__ as corpus


@pytest.mark.parametrize("file", corpus.FILES)
def test_every_answer_is_that_of_the_corpus(file: str) -> None:
    differences = [text for case in corpus.stored(file) if (text := corpus.difference(case))]
    assert not differences, "\n".join(differences[:5])
