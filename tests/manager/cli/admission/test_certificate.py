"""The certificate of the webhook: when it is renewed, and that no replica loses trust meanwhile."""

import datetime as dt

import pytest
from cryptography import x509

from manager.cli.admission import certificate

HOST = "koord-admission.koordinator-system.svc"
NOW = dt.datetime(2026, 11, 24, tzinfo=dt.UTC)


@pytest.fixture(scope="module")
def pair():
    return certificate.make(HOST, NOW)


def test_a_new_certificate_is_for_the_service_and_trusts_itself(pair):
    made = x509.load_pem_x509_certificate(pair.certificate)
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [HOST]
    assert pair.bundle == pair.certificate
    assert certificate.problem(pair, HOST, NOW) == ""
    made.verify_directly_issued_by(made)


@pytest.mark.parametrize(
    ("days", "text"), [(-1, "valid until"), (0, ""), (274, ""), (275, "valid until 2027-11-24"), (400, "valid until")]
)
def test_it_is_renewed_90_days_before_its_end(pair, days, text):
    problem = certificate.problem(pair, HOST, NOW + dt.timedelta(days=days))
    assert text in problem
    assert bool(problem) == bool(text)


def test_a_renewed_one_keeps_the_one_before_it_and_no_others(pair):
    second = certificate.make(HOST, NOW + dt.timedelta(days=280), pair.bundle)
    assert second.bundle == second.certificate + pair.certificate
    third = certificate.make(HOST, NOW + dt.timedelta(days=281), second.bundle)
    assert third.bundle == third.certificate + second.certificate
    late = certificate.make(HOST, NOW + dt.timedelta(days=900), second.bundle)
    assert late.bundle == late.certificate


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (lambda pair, other: pair._replace(certificate=b""), "there is none"),
        (lambda pair, other: pair._replace(certificate=b"-----BEGIN CERTIFICATE-----\nAAAA\n"), "cannot be read"),
        (lambda pair, other: pair._replace(key=b"nonsense"), "cannot be read"),
        (lambda pair, other: pair._replace(key=other.key), "its key is of another certificate"),
        (lambda pair, other: pair._replace(bundle=other.bundle), "the bundle lacks it"),
        (lambda pair, other: pair._replace(bundle=b""), "cannot be read"),
    ],
)
def test_what_a_secret_may_hold_by_mistake_is_made_again(pair, spoil, text):
    other = certificate.make(HOST, NOW)
    assert text in certificate.problem(spoil(pair, other), HOST, NOW)
    assert certificate.make(HOST, NOW, b"nonsense").bundle.count(b"BEGIN") == 1


def test_a_certificate_of_another_release_is_made_again(pair):
    assert "another host" in certificate.problem(pair, "koord-admission.elsewhere.svc", NOW)
