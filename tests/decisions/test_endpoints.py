"""What a route answers, and what a caller is told who asks it for something else."""

from dataclasses import replace

import pytest

from inference.contract.kinds import Backend, Endpoint, Task
from inference.contract.snapshot import ConfigSnapshot, RouteRecord
from inference.decisions.endpoints import (
    COUNTING,
    EVERYTHING,
    GENERATING,
    OTHER_PATHS,
    PATHS,
    READING,
    asked_as,
    fitting_targets,
    misfit,
)
from inference.decisions.endpoints import OFFERS as REAL_OFFERS
from tests.inference.gateway.rig import MODEL, configuration, pool_record, route_record

OFFERS = {**EVERYTHING, Backend.OPENAI: frozenset((Endpoint.CHAT, Endpoint.EMBEDDINGS))}
BASE_URL = "http://127.0.0.1:1/v1"
ROUTE = route_record("a", "b")


def mixed(*, backend: Backend = Backend.VLLM) -> ConfigSnapshot:
    """Pool `a` generates, pool `b` embeds."""
    return configuration(
        pool_record("a", BASE_URL, backend=backend),
        pool_record("b", BASE_URL, backend=backend, model_id="mdl_b"),
        models=(MODEL, replace(MODEL, id="mdl_b", name="embedder", task=Task.EMBED)),
    )


@pytest.mark.parametrize(
    ("endpoint", "targets"),
    [
        (Endpoint.CHAT, ["tgt_a"]),
        (Endpoint.COMPLETIONS, ["tgt_a"]),
        (Endpoint.RESPONSES, ["tgt_a"]),
        (Endpoint.MESSAGES, ["tgt_a"]),
        (Endpoint.COUNT_TOKENS, ["tgt_a"]),
        (Endpoint.EMBEDDINGS, ["tgt_b"]),
        (Endpoint.RERANK, ["tgt_b"]),
        (Endpoint.SCORE, ["tgt_b"]),
        (Endpoint.TOKENIZE, ["tgt_a", "tgt_b"]),
        (Endpoint.DETOKENIZE, ["tgt_a", "tgt_b"]),
    ],
)
def test_an_endpoint_goes_to_targets_with_a_model_for_it(
    endpoint: Endpoint, targets: list[str]
) -> None:
    found = fitting_targets(mixed(), ROUTE.targets, endpoint, offers=OFFERS)
    assert [target.id for target in found] == targets


def test_a_target_whose_backend_does_not_offer_it_is_left_out() -> None:
    snapshot = mixed(backend=Backend.OPENAI)
    assert fitting_targets(snapshot, ROUTE.targets, Endpoint.TOKENIZE, offers=OFFERS) == ()
    assert len(fitting_targets(snapshot, ROUTE.targets, Endpoint.CHAT, offers=OFFERS)) == 1


def test_a_target_whose_pool_or_model_is_not_there_stays_for_others_to_judge() -> None:
    route: RouteRecord = route_record("gone")
    assert fitting_targets(mixed(), route.targets, Endpoint.CHAT, offers=OFFERS) == route.targets
    unknown = configuration(pool_record("a", BASE_URL, model_id="mdl_gone"))
    targets = route_record("a").targets
    assert len(fitting_targets(unknown, targets, Endpoint.CHAT, offers=OFFERS)) == 1


@pytest.mark.parametrize(
    ("backend", "endpoints", "endpoint", "asked"),
    [
        (Backend.VLLM, (), Endpoint.MESSAGES, Endpoint.MESSAGES),
        (Backend.VLLM, (), Endpoint.COUNT_TOKENS, Endpoint.COUNT_TOKENS),
        (Backend.OPENAI, (), Endpoint.MESSAGES, Endpoint.CHAT),
        (Backend.OPENAI, (), Endpoint.RESPONSES, Endpoint.RESPONSES),
        (Backend.OPENAI, (Endpoint.CHAT,), Endpoint.RESPONSES, Endpoint.CHAT),
        (Backend.OPENAI, (Endpoint.CHAT,), Endpoint.EMBEDDINGS, None),
        (Backend.OPENAI, (Endpoint.COMPLETIONS,), Endpoint.MESSAGES, None),
        (Backend.OPENAI, (), Endpoint.COUNT_TOKENS, None),
        (Backend.VLLM, (Endpoint.CHAT,), Endpoint.COUNT_TOKENS, None),
        (
            Backend.VLLM,
            (Endpoint.CHAT, Endpoint.TOKENIZE),
            Endpoint.COUNT_TOKENS,
            Endpoint.TOKENIZE,
        ),
        (Backend.OPENAI, (Endpoint.RERANK,), Endpoint.RERANK, None),
    ],
)
def test_a_pool_is_asked_for_what_it_has_or_for_the_same_in_other_words(
    backend: Backend, endpoints: tuple[Endpoint, ...], endpoint: Endpoint, asked: Endpoint | None
) -> None:
    pool = pool_record("a", BASE_URL, backend=backend, endpoints=endpoints)
    assert asked_as(pool, endpoint, offers=REAL_OFFERS) is asked


def test_a_target_that_would_have_to_be_asked_in_other_words_is_left_out_if_there_are_none() -> (
    None
):
    pools = (
        pool_record("a", BASE_URL, endpoints=(Endpoint.CHAT,)),
        pool_record("b", BASE_URL),
    )
    snapshot, targets = configuration(*pools), route_record("a", "b").targets
    for may_bridge, left in ((True, targets), (False, targets[1:])):
        found = fitting_targets(
            snapshot, targets, Endpoint.MESSAGES, offers=REAL_OFFERS, may_bridge=may_bridge
        )
        assert found == left


def test_a_refusal_lists_what_is_answered() -> None:
    assert misfit(mixed(), ROUTE, Endpoint.TOKENIZE, offers=EVERYTHING) == (
        "The model `m` answers /v1/chat/completions, /v1/completions, /v1/responses, "
        "/v1/messages, /v1/embeddings, /v1/rerank, /v1/score, /tokenize, /detokenize and "
        "/v1/messages/count_tokens, not /tokenize."
    )
    only = misfit(mixed(backend=Backend.OPENAI), route_record("b"), Endpoint.CHAT, offers=OFFERS)
    assert only == "The model `m` answers /v1/embeddings, not /v1/chat/completions."


def test_every_endpoint_has_a_path_of_its_own() -> None:
    assert set(PATHS) == set(Endpoint)
    assert len(set(PATHS.values())) == len(Endpoint)
    assert not set(OTHER_PATHS) & set(PATHS.values())


def test_every_endpoint_is_of_one_kind() -> None:
    kinds = (GENERATING, READING, COUNTING)
    assert frozenset().union(*kinds) == set(Endpoint)
    assert sum(map(len, kinds)) == len(Endpoint)
