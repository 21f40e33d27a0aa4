"""What every kind of backend must say of itself."""

import json

import pytest

from inference.contract.kinds import Backend, Endpoint
from inference.workers.base import BackendTraits
from inference.workers.registry import OFFERS, REGISTRY

each_backend = pytest.mark.parametrize(
    "traits", REGISTRY.values(), ids=[kind.value for kind in REGISTRY]
)


def test_every_kind_is_listed_under_its_own_name() -> None:
    assert {kind: traits.kind for kind, traits in REGISTRY.items()} == {
        kind: kind for kind in Backend
    }


@each_backend
def test_usage_can_be_had_of_every_stream(traits: BackendTraits) -> None:
    options = {name: json.loads(text) for name, text in traits.usage_options.items()}
    assert options["include_usage"] is True


@each_backend
def test_a_full_worker_is_told_from_a_broken_one(traits: BackendTraits) -> None:
    assert 429 in traits.saturated_statuses
    assert traits.saturated_statuses.isdisjoint({500, 502, 504, *range(200, 400)})


@each_backend
def test_what_can_be_asked_of_it_is_said(traits: BackendTraits) -> None:
    assert Endpoint.CHAT in traits.endpoints
    assert OFFERS[traits.kind] == traits.endpoints
