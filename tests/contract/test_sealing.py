"""Seals and digests both planes must compute alike, pinned to exact values."""

import pytest

from inference.contract.sealing import (
    SealError,
    content_digest,
    decrypt,
    encrypt,
    key_bucket,
    seal,
    subkey,
    token_digest,
    unseal,
    without_secrets,
    worker_key,
)

KEY = bytes(range(32))
OTHER = bytes(range(1, 33))


def test_what_was_sealed_is_opened() -> None:
    assert unseal(KEY, seal(KEY, b"payload")) == b"payload"
    assert unseal(KEY, seal(KEY, b"")) == b""


def test_a_seal_is_the_hmac_in_hex_before_the_payload() -> None:
    assert seal(KEY, b"payload") == (
        b"497cb3be6246f136e9d81575d0c85cff2f0043815c26000c964790412a8a26e4payload"
    )


@pytest.mark.parametrize(
    "sealed",
    [
        b"",
        b"payload",
        seal(KEY, b"payload")[:-1],
        seal(KEY, b"payload") + b"x",
        seal(KEY, b"payload").replace(b"pay", b"Pay"),
        seal(OTHER, b"payload"),
        seal(KEY, b"payload")[:64],
        b"\xff" * 80,
    ],
    ids=range(8),
)
def test_what_was_not_sealed_with_this_key_is_refused(sealed: bytes) -> None:
    with pytest.raises(SealError):
        unseal(KEY, sealed)


def test_each_use_has_a_key_of_its_own() -> None:
    uses = ("config-seal", "secrets", "worker-key")
    keys = {subkey(KEY, use) for use in uses}
    assert len(keys) == 3
    assert KEY not in keys


def test_a_secret_comes_back_and_never_looks_the_same_twice() -> None:
    one, two = encrypt(KEY, "sk-canary"), encrypt(KEY, "sk-canary")
    assert one != two
    assert "canary" not in one
    assert decrypt(KEY, one) == decrypt(KEY, two) == "sk-canary"


@pytest.mark.parametrize(
    "sealed",
    ["", "x", "!!!!", "AAAA" * 20, pytest.param(encrypt(OTHER, "s"), id="of another key")],
)
def test_a_secret_that_cannot_be_opened_says_so(sealed: str) -> None:
    with pytest.raises(SealError):
        decrypt(KEY, sealed)


def test_digests_are_these() -> None:
    assert content_digest(b"abc") == (
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    )
    assert (
        worker_key(KEY, "pool_p-0")
        == "4de57b64447b4a449958e0360b3fe4c7cb0559d358667c0b406e79236d87a448"
    )
    assert (
        token_digest(KEY, "hw_a.secret")
        == "78e05111f86c6013ce2970537cb234b934505ebfa343ced5574520165c706933"
    )
    assert key_bucket("0123456789abcdefghjkmnpqrs") == "6a"


def test_workers_have_keys_of_their_own() -> None:
    assert worker_key(KEY, "pool_p-0") != worker_key(KEY, "pool_p-1")
    assert worker_key(KEY, "pool_p-0") != worker_key(OTHER, "pool_p-0")


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("hw_0123abc.a-b_C and hwt_9.x", "hw_0123abc.*** and hwt_9.***"),
        ("Authorization: Bearer x.y", "Authorization: Bearer ***"),
        ("gpt-4.1 of hw_0123abc", "gpt-4.1 of hw_0123abc"),
    ],
)
def test_what_looks_like_a_credential_is_blanked_out(text: str, kept: str) -> None:
    assert without_secrets(text) == kept
