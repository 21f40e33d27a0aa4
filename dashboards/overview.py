"""The way to the first figures, as the overview shows it."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import QuerySet

from controlplane.selectors.access import Access
from controlplane.selectors.keys import list_keys
from controlplane.selectors.models import list_models
from controlplane.selectors.pools import list_pools
from controlplane.selectors.requests import list_requests
from controlplane.selectors.routes import list_routes


@dataclass(frozen=True, slots=True)
class Step:
    """One step to the first figures; `url_name` is the page that does it."""

    title: str
    detail: str
    url_name: str
    is_done: bool


def checklist_of(access: Access, organisation_id: str) -> Sequence[Step]:
    """The steps to the first request; none once there was one, or for who may not see it all."""
    is_partial_reader = not access.reads_organisation(organisation_id)
    if is_partial_reader or list_requests(access, organisation_id).order_by().exists():
        return ()
    steps = (
        ("Name a model", "What callers ask for, and what a pool serves.", "models", list_models),
        ("Connect a pool", "Workers of ours, or addresses you already have.", "pools", list_pools),
        ("Make a route", "The model name callers send, and where it leads.", "routes", list_routes),
        ("Issue a key", "Its secret is shown once.", "keys", list_keys),
    )
    return [
        *(
            Step(title, detail, url_name, _has_any(rows(access), organisation_id))
            for title, detail, url_name, rows in steps
        ),
        Step("Send a request", "It shows here within two seconds of its end.", "requests", False),
    ]


def _has_any(rows: QuerySet, organisation_id: str) -> bool:
    return rows.filter(organisation_id=organisation_id).exists()
