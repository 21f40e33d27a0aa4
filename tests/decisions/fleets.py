"""A configuration of pools `a`, `b` … behind the route `m`, and workers of the fleet model."""

from collections.abc import Iterable, Mapping

from inference.contract.codec import assemble, index_section
from inference.contract.kinds import Backend, Provisioner
from inference.contract.sealing import key_bucket
from inference.contract.snapshot import (
    ConfigSnapshot,
    KeyRecord,
    LimitRecord,
    Manifest,
    ModelRecord,
    OrganisationRecord,
    PoolRecord,
    PriceRecord,
    RouteRecord,
    SwitchRecord,
)

KEY = KeyRecord("k1", "org_a", "team_a", "proj_a", ())
MODEL = ModelRecord("mdl_a", "org_a", "llama")
PRICE = PriceRecord("prc_a", "org_a", "mdl_a", 1_000_000_000, 2_000_000_000, 500_000_000)


def pool(name: str, workers: int = 1, **fields: object) -> PoolRecord:
    """A static pool of so many workers."""
    given: dict[str, object] = {
        "model_id": "mdl_a",
        "provisioner": Provisioner.STATIC,
        "backend": Backend.VLLM,
        "served_model_name": name,
        "addresses": tuple(f"http://127.0.0.1:{9 + place}/v1" for place in range(workers)),
    }
    return PoolRecord(f"pool_{name}", "org_a", name, **(given | fields))  # type: ignore[arg-type]


def configured(
    pools: Iterable[PoolRecord],
    route: RouteRecord,
    *,
    keys: Iterable[KeyRecord] = (KEY,),
    models: Iterable[ModelRecord] = (MODEL,),
    prices: Iterable[PriceRecord] = (PRICE,),
    limits: Iterable[LimitRecord] = (),
    switches: Iterable[SwitchRecord] = (),
) -> ConfigSnapshot:
    """The snapshot of it."""
    sections: dict[str, Mapping[object, object]] = {
        "organisations": index_section("organisations", [OrganisationRecord("org_a", "Water")]),
        "models": index_section("models", models),
        "prices": index_section("prices", prices),
        "pools": index_section("pools", pools),
        "routes": index_section("routes", [route]),
        "limits": index_section("limits", limits),
        "switches": index_section("switches", switches),
    }
    for key in keys:
        sections[f"keys/{key_bucket(key.id)}"] = {key.id: key}
    return assemble(Manifest("L1", 7, {}, 0.0), sections)
