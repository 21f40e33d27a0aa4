"""Snapshots as the control plane publishes them, for the tests of those who read them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from redis.asyncio import Redis

from inference.contract import wire
from inference.contract.codec import encode_manifest, encode_section
from inference.contract.kinds import Backend, Provisioner
from inference.contract.sealing import content_digest, key_bucket, seal
from inference.contract.snapshot import (
    KeyRecord,
    Manifest,
    ModelRecord,
    OrganisationRecord,
    PoolRecord,
    RouteRecord,
    TargetRecord,
)

DATA_KEY = bytes(range(32))
KEY_ID = "0123456789abcdefghjkmnpqrs"
KEYS_SECTION = wire.key_section(key_bucket(KEY_ID))

ORGANISATION = OrganisationRecord("org_a", "Water")
MODEL = ModelRecord("mdl_a", "org_a", "llama")
POOL = PoolRecord(
    "pool_a",
    "org_a",
    "pool",
    "mdl_a",
    Provisioner.STATIC,
    Backend.OPENAI,
    "llama",
    addresses=("http://127.0.0.1:9000/v1",),
)
ROUTE = RouteRecord("rt_a", "org_a", "chat", (TargetRecord("tgt_a", "pool_a", 1),))
KEY = KeyRecord(KEY_ID, "org_a", "team_a", "proj_a", ())

RECORDS: Mapping[str, tuple[Any, ...]] = {
    "organisations": (ORGANISATION,),
    "models": (MODEL,),
    "prices": (),
    "pools": (POOL,),
    "routes": (ROUTE,),
    KEYS_SECTION: (KEY,),
}


def route_named(name: str) -> tuple[RouteRecord, ...]:
    return (replace(ROUTE, name=name),)


@dataclass(frozen=True, slots=True)
class Published:
    """One version, encoded and sealed; `sections` are sealed bytes by digest."""

    manifest: Manifest
    sealed: bytes
    sections: Mapping[str, bytes] = field(repr=False)


def build(
    version: int,
    *,
    lineage: str = "L1",
    data_key: bytes = DATA_KEY,
    without: Iterable[str] = (),
    **changes: Iterable[Any],
) -> Published:
    """The sound configuration with some sections' records replaced or left out."""
    names = {}
    sections = {}
    for name, records in (RECORDS | changes).items():
        if name not in without:
            payload = encode_section(records)
            names[name] = content_digest(payload)
            sections[names[name]] = seal(data_key, payload)
    manifest = Manifest(lineage, version, names, 1_764_500_000.0)
    return Published(manifest, seal(data_key, encode_manifest(manifest)), sections)


async def publish(admin: Redis, published: Published) -> None:
    """Put it into the store and say so."""
    manifest = published.manifest
    for digest, sealed in published.sections.items():
        await admin.set(wire.section_key(digest), sealed)
    fields: dict[str, bytes | str | int] = {
        "lineage": manifest.lineage,
        "version": manifest.version,
        "sealed": published.sealed,
    }
    await admin.hset(wire.MANIFEST, mapping=fields)  # type: ignore[arg-type]
    await admin.publish(wire.SNAPSHOT_CHANGED, f"{manifest.lineage}:{manifest.version}")
