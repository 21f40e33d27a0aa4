"""Pools as a caller may see them."""

import re
from collections.abc import Collection, Mapping, Sequence

from django.db.models import BooleanField, ExpressionWrapper, Prefetch, Q, QuerySet
from django.utils import timezone

from controlplane.errors import Invalid, NotAllowed
from controlplane.models import ConfigRevision, ConfigSection, Pool, RouteTarget
from controlplane.selectors.access import Access
from controlplane.selectors.prices import input_price
from inference.contract import codec
from inference.contract.kinds import Provisioner
from inference.contract.snapshot import PoolRecord

_SECTION = "pools"
_ORDINAL = re.compile(r"[0-9]{1,4}")


def list_pools(access: Access) -> QuerySet[Pool]:
    """Pools with their model; `is_priced` is whether what it serves has a price now."""
    price = input_price("model_id", timezone.now(), pool="pk")
    pools = Pool.objects.select_related("model").alias(price_input=price)
    is_priced = ExpressionWrapper(Q(price_input__isnull=False), BooleanField())
    return access.visible(pools.annotate(is_priced=is_priced))


def list_pools_with_routes(access: Access) -> QuerySet[Pool]:
    """Pools with their model and the routes that send to them, each of which names its route."""
    targets = RouteTarget.objects.select_related("route").order_by("route__name")
    return list_pools(access).prefetch_related(Prefetch("targets", targets))


def require_logs(access: Access, pool: Pool) -> None:
    """Raise NotAllowed unless the caller reads all of the pool's organisation.

    A worker serves everybody's requests, and what it prints may tell of them.
    """
    if not access.reads_organisation(pool.organisation_id):
        raise NotAllowed("Logs are for roles of the whole organisation.")


def get_worker_id(pool: Pool, asked: str) -> str:
    """The id of a worker whose log can be had, by that id or its number; raises Invalid.

    Only workers we start print where our supervisor can read it.
    """
    if pool.provisioner == Provisioner.STATIC:
        raise Invalid.field(
            "worker", "The workers of a static pool are started elsewhere, and so are their logs."
        )
    ordinal = asked.removeprefix(f"{pool.pk}-")
    if not _ORDINAL.fullmatch(ordinal):
        raise Invalid.field("worker", "Name a worker of this pool, by its id or its number.")
    return f"{pool.pk}-{int(ordinal)}"


def get_pool_records(
    pool: Pool, versions: Collection[tuple[str, int]]
) -> Mapping[tuple[str, int], PoolRecord | None]:
    """The pool as these versions of the configuration had it; None where it wasn't there.

    A version that is kept no longer is left out.
    """
    asked = Q()
    for lineage, version in versions:
        asked |= Q(lineage=lineage, version=version)
    revisions = ConfigRevision.objects.filter(asked) if asked else ConfigRevision.objects.none()
    digests = {(one.lineage, one.version): one.manifest.get(_SECTION) for one in revisions}
    contents = dict(
        ConfigSection.objects.filter(
            digest__in=[one for one in digests.values() if one]
        ).values_list("digest", "content")
    )
    records = {digest: _records_in(bytes(content)) for digest, content in contents.items()}
    return {
        place: records[digest].get(pool.pk)
        for place, digest in digests.items()
        if digest in records
    }


def _records_in(content: bytes) -> Mapping[str, PoolRecord]:
    return {record.id: record for record in codec.decode_section(_SECTION, content)}


def list_every_pool(ids: Sequence[str]) -> QuerySet[Pool]:
    """Pools by their ids, for jobs: whoever asks has seen to it that they are the asker's."""
    return Pool.objects.filter(pk__in=list(ids))
