"""Artifacts recognise their patients, and a plain guess does not."""

from __future__ import annotations

import hashlib

import pytest
from pydantic import ValidationError

from krisis.confidence import patient_keys
from krisis.confidence.patient_keys import _COST, PatientKeys

NAMES = [f"{number:07d}" for number in range(30)]


@pytest.fixture(autouse=True)
def _real_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patient_keys, "_COST", _COST)


def test_patients_are_recognised_and_others_are_not() -> None:
    keys = PatientKeys.of(NAMES, made_from="a certificate")
    assert keys.n_among([*NAMES[:4], "9999999"]) == 4
    assert PatientKeys.model_validate_json(keys.model_dump_json()).n_among(NAMES) == len(NAMES)


def test_the_keys_are_those_of_scrypt_with_the_salt_that_is_stated() -> None:
    keys = PatientKeys.of(["0000007"], made_from="a certificate")
    salt = bytes.fromhex(keys.salt)
    expected = hashlib.scrypt(b"0000007", salt=salt, n=_COST, r=8, p=1, dklen=8).hex()
    assert keys.keys == [expected]


@pytest.mark.parametrize("name", ["sha256", "sha1", "md5", "blake2b"])
def test_no_plain_hash_of_a_name_is_in_an_artifact(name: str) -> None:
    text = PatientKeys.of(NAMES, made_from="a certificate").model_dump_json()
    for one in NAMES:
        assert one not in text
        assert hashlib.new(name, one.encode()).hexdigest()[:16] not in text


def test_another_artifact_has_other_keys_and_the_same_one_the_same() -> None:
    first, again, other = (PatientKeys.of(NAMES, made_from=one) for one in ("a", "a", "b"))
    assert first == again
    assert not set(first.keys) & set(other.keys)


def test_very_many_patients_take_no_longer_than_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patient_keys, "_MOST_AT_FULL_COST", 10)
    costs = [PatientKeys.of(NAMES[:n], made_from="").cost for n in (10, 11, 20, 30)]
    assert costs == [_COST, _COST // 2, _COST // 2, _COST // 4]


@pytest.mark.parametrize("cost", [0, 1, 3, 2**20, -2])
def test_an_artifact_cannot_ask_for_any_cost(cost: int) -> None:
    with pytest.raises(ValidationError):
        PatientKeys(salt="0" * 32, cost=cost, keys=[])
