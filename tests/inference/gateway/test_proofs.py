"""Keys that were proven once: no HMAC the next time, and never longer than the proof holds."""

from dataclasses import replace

import pytest

from inference.contract.sealing import token_digest
from inference.contract.snapshot import ConfigSnapshot, KeyDigest
from inference.errors import InvalidApiKey
from inference.gateway import auth
from inference.gateway.auth import Proofs, identify
from tests.inference.gateway.rig import PEPPERS, TOKEN, configuration, key_record, pool_record

POOL = pool_record("a", "http://127.0.0.1:9/v1")
HEADER = f"Bearer {TOKEN}".encode()
NOW = 1_764_500_000.0


def snapshot_with(**changes: object) -> ConfigSnapshot:
    return configuration(POOL, keys=(key_record(TOKEN, **changes),))


@pytest.fixture
def digests(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tokens an HMAC was computed of."""
    computed: list[str] = []

    def counting(pepper: bytes, token: str) -> str:
        computed.append(token)
        return token_digest(pepper, token)

    monkeypatch.setattr(auth, "token_digest", counting)
    return computed


def test_a_second_request_is_not_proven_again(digests: list[str]) -> None:
    proofs, snapshot = Proofs(), snapshot_with()
    for _ in range(3):
        record = identify(snapshot, HEADER, peppers=PEPPERS, now=NOW, proofs=proofs)
        assert record.id == TOKEN[3:29]
    assert digests == [TOKEN]


def test_a_new_snapshot_asks_for_proof_anew_and_its_record_counts(digests: list[str]) -> None:
    proofs = Proofs()
    identify(snapshot_with(), HEADER, peppers=PEPPERS, now=NOW, proofs=proofs)
    later = snapshot_with(project_id="proj_b")
    assert identify(later, HEADER, peppers=PEPPERS, now=NOW, proofs=proofs).project_id == "proj_b"
    assert len(digests) == 2
    with pytest.raises(InvalidApiKey):
        identify(snapshot_with(is_enabled=False), HEADER, peppers=PEPPERS, now=NOW, proofs=proofs)
    with pytest.raises(InvalidApiKey):
        identify(replace(later, keys={}), HEADER, peppers=PEPPERS, now=NOW, proofs=proofs)


def test_a_proof_ends_with_the_overlap_of_a_rotation_and_with_the_key() -> None:
    old = KeyDigest(2, token_digest(PEPPERS[2], TOKEN), accepted_until=NOW + 10)
    new = KeyDigest(2, token_digest(PEPPERS[2], "another secret"))
    for snapshot in (snapshot_with(digests=(new, old)), snapshot_with(expires_at=NOW + 10)):
        proofs = Proofs()
        identify(snapshot, HEADER, peppers=PEPPERS, now=NOW, proofs=proofs)
        identify(snapshot, HEADER, peppers=PEPPERS, now=NOW + 9, proofs=proofs)
        with pytest.raises(InvalidApiKey):
            identify(snapshot, HEADER, peppers=PEPPERS, now=NOW + 10, proofs=proofs)


def test_what_was_not_proven_is_never_taken_for_proven(digests: list[str]) -> None:
    proofs, snapshot = Proofs(), snapshot_with()
    identify(snapshot, HEADER, peppers=PEPPERS, now=NOW, proofs=proofs)
    for _ in range(2):
        with pytest.raises(InvalidApiKey):
            identify(snapshot, HEADER + b"x", peppers=PEPPERS, now=NOW, proofs=proofs)
    assert len(digests) == 3


def test_proofs_are_bounded(monkeypatch: pytest.MonkeyPatch, digests: list[str]) -> None:
    monkeypatch.setattr(auth, "MAX_PROOFS", 2)
    tokens = [f"hw_{number:026d}.secret" for number in range(3)]
    snapshot = configuration(POOL, keys=tuple(key_record(token) for token in tokens))
    proofs = Proofs()
    for token in (*tokens, tokens[2], tokens[0]):
        identify(snapshot, f"Bearer {token}".encode(), peppers=PEPPERS, now=NOW, proofs=proofs)
    assert digests == [*tokens, tokens[0]]
