"""Edits of pools: what should be, never what a worker is to do now."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Unpack

from django.conf import settings

from controlplane.errors import InUse, Invalid
from controlplane.models import CatalogueModel, Organisation, Pool
from controlplane.services import edits, rows
from controlplane.services.actors import Actor
from controlplane.services.models import find_or_create_model
from controlplane.services.pool_workers import worker_values
from controlplane.services.route_rules import routes_with_pool_in_rules
from controlplane.services.snapshots import configuration_edit
from controlplane.services.subjects import remove_what_names
from inference.contract.kinds import Backend, Provisioner
from inference.contract.params import POOL_BOUNDS
from inference.contract.sealing import SealError, decrypt, encrypt

MAX_CREDENTIAL_LENGTH = 4_096
_SHOWN_CHARACTERS = 4
_LEAST_LENGTH_SHOWN = 12
"""Of a shorter credential even four characters would tell too much."""

_DEFAULT_BACKENDS: Mapping[str, str] = {Provisioner.STATIC.value: Backend.OPENAI.value}

_EDITABLE = frozenset(
    (
        *("name", "model", "provisioner", "backend", "served_model_name", "power"),
        *("addresses", "credential", "model_source", "engine_arguments", "port_base"),
        *("cordoned", "worker_restarts", "endpoints"),
        *("gpu_type", "capacity_class", "gpus_per_worker"),
        *POOL_BOUNDS,
    )
)


class PoolSettings(TypedDict, total=False):
    """What a pool can be given besides its name, model and provisioner; see `PoolRecord`."""

    backend: str
    served_model_name: str
    power: str
    replicas: int
    addresses: Sequence[str]
    model_source: str | None
    engine_arguments: Mapping[str, object]
    port_base: int | None
    start_timeout_s: int
    drain_timeout_s: int
    restart_generation: int
    cordoned: Sequence[int]
    worker_restarts: Mapping[str, int]
    worker_concurrency: int | None
    breaker_failure_percent: int
    breaker_min_requests: int
    breaker_open_ms: int
    panic_percent: int
    endpoints: Sequence[str]
    gpu_type: str | None
    capacity_class: str | None
    gpus_per_worker: int


def create_pool(
    actor: Actor,
    *,
    organisation: Organisation,
    name: str,
    model: CatalogueModel | str,
    provisioner: str,
    credential: str | None = None,
    **pool_settings: Unpack[PoolSettings],
) -> Pool:
    """Make a pool; raises Invalid or ProblemsFound.

    `model` is a row or the name or id of one; a new name is listed in the catalogue. Left out, the
    backend is `openai` for static pools and `vllm` for others, and the served name is the model's.
    """
    with configuration_edit():
        found = _model_of(actor, organisation, model)
        pool = Pool(
            organisation=organisation,
            name=name,
            model=found,
            provisioner=provisioner,
            backend=_DEFAULT_BACKENDS.get(provisioner, Backend.VLLM.value),
            served_model_name=found.name,
        )
        _refuse_older_generation(pool, pool_settings)
        given = {**pool_settings, **worker_values(pool, pool_settings), **_sealed(credential)}
        for field, value in given.items():
            setattr(pool, field, value)
        _check_arguments(pool.engine_arguments)
        rows.insert(pool)
        edits.conclude(actor, "create", "pools", pool, after=edits.values_of(pool))
    return pool


def update_pool(
    actor: Actor,
    *,
    pool_id: str,
    changes: Mapping[str, Any],
    expected_version: int | None = None,
) -> Pool:
    """Change the fields that are named; a credential that isn't named stays, None takes it away.

    Raises Invalid, ProblemsFound, NotFound or VersionMismatch.
    """
    edits.refuse_unknown(changes, _EDITABLE)
    with configuration_edit():
        pool = rows.lock(Pool, pool_id, expected_version=expected_version)
        values = dict(changes)
        if "model" in values:
            values["model"] = _model_of(actor, pool.organisation, values["model"])
        if "credential" in values:
            values.update(_resealed(pool, values.pop("credential")))
        values.update(worker_values(pool, values))
        _refuse_older_generation(pool, values)
        _check_arguments(values.get("engine_arguments", {}))
        changed = rows.change(pool, values)
        if changed is not None:
            before, after = changed
            edits.conclude(actor, "update", "pools", pool, before=before, after=after)
    return pool


def delete_pool(actor: Actor, *, pool_id: str, expected_version: int | None = None) -> None:
    """Remove a pool no route sends to, and its switch; raises InUse naming the routes that do."""
    with configuration_edit():
        pool = rows.lock(Pool, pool_id, expected_version=expected_version)
        routes = routes_that_use(pool)
        if routes:
            raise InUse.by(f"Pool {pool.name}", "routes", routes)
        before = edits.values_of(pool)
        remove_what_names(actor, pool.organisation_id, "pool", [pool.pk])
        for price in pool.prices.filter(removed_at__isnull=True):
            edits.note(actor, "delete", "prices", price, before=edits.values_of(price))
        rows.remove(pool)
        edits.conclude(actor, "delete", "pools", pool, before=before)


def routes_that_use(pool: Pool) -> list[str]:
    """The names of routes that send to a pool, by themselves or by a rule."""
    own = pool.targets.values_list("route__name", flat=True)
    return sorted({*own, *routes_with_pool_in_rules(pool.organisation_id, pool.pk)})


def _model_of(
    actor: Actor, organisation: Organisation, model: CatalogueModel | str
) -> CatalogueModel:
    if isinstance(model, CatalogueModel):
        return model
    return find_or_create_model(actor, organisation=organisation, name_or_id=model)


def _check_arguments(arguments: object) -> None:
    """Whatever the provisioner makes of them: names and plain values that a snapshot can carry."""
    if not isinstance(arguments, Mapping):
        raise Invalid.field("engine_arguments", "Arguments are names and values.")
    for name, value in arguments.items():
        is_whole = isinstance(value, int) and abs(value) < 2**63
        is_plain = is_whole or (isinstance(value, float) and math.isfinite(value))
        if not isinstance(name, str) or not (is_plain or isinstance(value, str)):
            raise Invalid.field(
                f"engine_arguments.{name}", "A value is text, a number, true or false."
            )


def _refuse_older_generation(pool: Pool, values: Mapping[str, Any]) -> None:
    asked = values.get("restart_generation", pool.restart_generation)
    if isinstance(asked, int) and asked < pool.restart_generation:
        raise Invalid.field(
            "restart_generation", f"It only grows; it is {pool.restart_generation} now."
        )
    if asked != pool.restart_generation:
        _refuse_restart(values.get("provisioner", pool.provisioner))


def _refuse_restart(provisioner: object) -> None:
    if provisioner == Provisioner.STATIC:
        raise Invalid.field(
            "restart_generation", "The workers of a static pool are started elsewhere."
        )


def _sealed(credential: str | None) -> dict[str, str | None]:
    if credential is None:
        return {"credential": None, "credential_last4": ""}
    _check_credential(credential)
    is_long = len(credential) >= _LEAST_LENGTH_SHOWN
    return {
        "credential": encrypt(settings.HEADWORKS.data_key_bytes, credential),
        "credential_last4": credential[-_SHOWN_CHARACTERS:] if is_long else "",
    }


def _resealed(pool: Pool, credential: str | None) -> dict[str, str | None]:
    """The new ciphertext, or nothing to change when it's the same secret again."""
    if credential is not None and pool.credential is not None:
        try:
            if decrypt(settings.HEADWORKS.data_key_bytes, pool.credential) == credential:
                return {}
        except SealError:
            # sealed with a data key that is gone: this edit is how it's mended
            return _sealed(credential)
    return _sealed(credential)


def _check_credential(credential: str) -> None:
    """A credential travels in a header, and a mask sent back isn't one."""
    if not 0 < len(credential) <= MAX_CREDENTIAL_LENGTH:
        raise Invalid.field(
            "credential", f"A credential has 1 to {MAX_CREDENTIAL_LENGTH:,} characters."
        )
    if not (credential.isascii() and credential.isprintable()) or " " in credential:
        raise Invalid.field("credential", "Printable ASCII characters only, no spaces.")
    if credential.startswith("***"):
        raise Invalid.field("credential", "This is a mask; leave the field out to keep the secret.")
