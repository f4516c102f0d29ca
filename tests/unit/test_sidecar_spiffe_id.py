"""The SPIFFE id of a certificate: one, well-formed, in any case of letters; or an error, never nothing."""

from __future__ import annotations

import pytest

from authorizer.listeners.certificate_names import find_spiffe_id


@pytest.mark.parametrize(
    ("uris", "spiffe_id"),
    [
        ([], None),
        (["https://spiffe.example/"], None),
        (["urn:spiffe://a"], None),
        (["spiffe://prod/ns/a"], "spiffe://prod/ns/a"),
        (["https://a.example", "spiffe://prod/ns/a"], "spiffe://prod/ns/a"),
        (["SPIFFE://prod/ns/a"], "spiffe://prod/ns/a"),
        (["sPiFfE://Prod.Example/ns/A"], "spiffe://prod.example/ns/A"),
        (["spiffe://prod"], "spiffe://prod"),
        (["spiffe://prod/" + "a" * 2034], "spiffe://prod/" + "a" * 2034),
    ],
)
def test_the_only_id_is_found(uris: list[str], spiffe_id: str | None) -> None:
    assert find_spiffe_id(uris) == spiffe_id


@pytest.mark.parametrize(
    ("uris", "why"),
    [
        (["spiffe://a/b", "SPIFFE://a/b"], "2 SPIFFE ids"),
        (["spiffe:"], "is not a SPIFFE id"),
        (["spiffe:/a/b"], "is not a SPIFFE id"),
        (["SPIFFE:a"], "is not a SPIFFE id"),
        (["spiffe:///ns/a"], "is not a SPIFFE id"),
        (["spiffe://user@prod/a"], "is not a SPIFFE id"),
        (["spiffe://prod:443/a"], "is not a SPIFFE id"),
        (["spiffe://prod?a"], "is not a SPIFFE id"),
        (["spiffe://prod#a"], "is not a SPIFFE id"),
        (["spiffe://pr\u017fod/a"], "is not a SPIFFE id"),
        (["spiffe://prod/a\nb"], "is not a SPIFFE id"),
        (["spiffe://prod/" + "a" * 2035], "at most 2048 characters"),
    ],
)
def test_an_ambiguous_or_invalid_id_is_an_error(uris: list[str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        find_spiffe_id(uris)
