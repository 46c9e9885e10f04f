"""This project reads every text of the frozen corpus as apimachinery does, and none takes time or memory."""

from tests.corpora.quantities import __main__ as corpus


def test_every_text_is_read_as_kubernetes_reads_it() -> None:
    assert list(corpus.differences(corpus.frozen())) == []
