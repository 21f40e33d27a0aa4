"""What a request says of itself, by body and headers, and where that sends it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.contract.events import Origin
from inference.contract.kinds import Endpoint, Outcome, PriorityClass, Strategy, TaskClass
from inference.contract.params import MAX_TAGS
from inference.contract.snapshot import MatchRecord, RuleRecord, TargetRecord
from inference.decisions.facts import RequestFacts, facts_from_record, facts_record
from inference.decisions.rules import headers_of
from inference.errors import InsufficientScope, InvalidRequest
from inference.gateway.facts import facts_for
from inference.gateway.headers import (
    ANY_SESSION,
    PRIORITY,
    SESSION,
    TAGS,
    TARGET,
    TASK,
    read_headers,
)
from inference.gateway.schemas import MAX_CHARS, parse_request
from tests.inference.gateway.client import BASE, Reply, chat, request_bytes, send
from tests.inference.gateway.rig import (
    DEBUG_TOKEN,
    TOKEN,
    Gateway,
    configuration,
    key_record,
    pool_record,
    route_record,
    running_gateway,
)
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour


async def ask(port: int, headers: dict[str, str], *, token: str = TOKEN, **fields: object) -> Reply:
    body = json.dumps({**BASE, **fields}).encode()
    return await send(port, request_bytes(body, token=token, headers=headers))


def origin(gateway: Gateway) -> Origin:
    return gateway.books.ends[-1].origin


def target(name: str) -> TargetRecord:
    return TargetRecord(f"tgt_{name}", f"pool_{name}", 1)


async def test_the_rule_that_fits_sends_the_request_and_is_in_the_books(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    pools = (pool_record("a", upstream.base_url), pool_record("b", other_upstream.base_url))
    gold = MatchRecord(headers=(("x-tier", "gold"),), tags=("web",), aliases=("llm",))
    route = route_record(
        "a", aliases=("llm",), rules=(RuleRecord("rule_1", "gold", gold, (target("b"),)),)
    )
    async with running_gateway(configuration(*pools, routes=(route,))) as gateway:
        headers = {"X-Tier": "gold", "x-headworks-tags": "web"}
        assert (await ask(gateway.port, headers, model="llm")).status == 200
        assert (len(upstream.calls), len(other_upstream.calls)) == (0, 1)
        told = origin(gateway)
        assert (told.requested_model, told.route_name, told.rule_id) == ("llm", "m", "rule_1")
        assert gateway.books.openings[-1].origin == told
        decision = gateway.books.ends[-1].decision
        assert decision is not None
        assert decision["rule"] == "rule_1"
        # the same without the alias, or without the header, takes the route's own target
        assert (await ask(gateway.port, headers)).status == 200
        assert (await ask(gateway.port, {"x-headworks-tags": "web"}, model="llm")).status == 200
        assert origin(gateway).rule_id is None
        assert (len(upstream.calls), len(other_upstream.calls)) == (2, 1)
    sent = other_upstream.calls[0].headers
    assert not [name for name in sent if name.startswith("x-") and name != "x-request-id"]


async def test_all_that_a_caller_says_of_a_request_is_in_the_books(upstream: Upstream) -> None:
    key = key_record(
        TOKEN, tags=("key-tag",), priority=PriorityClass.DEFAULT, default_task=TaskClass.CODE
    )
    snapshot = configuration(pool_record("a", upstream.base_url), keys=(key,))
    async with running_gateway(snapshot) as gateway:
        headers = {
            "x-headworks-tags": "web, beta ,key-tag",
            "x-headworks-task": "Creative",
            "x-headworks-priority": "batch",
        }
        assert (await ask(gateway.port, headers, user="anna")).status == 200
        told = origin(gateway)
        assert told.end_user == "anna"
        assert told.tags == ("key-tag", "web", "beta")
        assert (told.priority, told.task) == (PriorityClass.BATCH, TaskClass.CREATIVE)
        # what it doesn't say is the key's, and it can't make itself more urgent
        reply = await ask(gateway.port, {"x-headworks-priority": "interactive"})
        assert reply.status == 200
        told = origin(gateway)
        assert (told.end_user, told.tags) == (None, ("key-tag",))
        assert (told.priority, told.task) == (PriorityClass.DEFAULT, TaskClass.CODE)


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("x-headworks-tags", "fine,not fine"),
        ("x-headworks-tags", "-"),
        ("x-headworks-tags", "a" * 65),
        ("x-headworks-tags", ",".join(f"t{number}" for number in range(MAX_TAGS + 1))),
        ("x-headworks-task", "poetry"),
        ("x-headworks-priority", "urgent"),
    ],
)
async def test_a_header_that_says_nothing_known_is_the_callers_fault(
    gateway: Gateway, upstream: Upstream, header: str, value: str
) -> None:
    reply = await ask(gateway.port, {header: value})
    assert (reply.status, reply.error["code"]) == (400, "invalid_request")
    assert reply.error["param"] == header
    assert upstream.calls == []
    assert gateway.books.end.outcome is Outcome.REFUSED


async def test_a_session_stays_with_its_worker_by_either_header(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    pool = pool_record("a", upstream.base_url, other_upstream.base_url)
    route = route_record("a", strategy=Strategy.SESSION_AFFINITY)

    async def worker(headers: dict[str, str], **fields: object) -> str:
        assert (await ask(gateway.port, headers, **fields)).status == 200
        return gateway.books.ends[-1].charges[0].worker_id

    async with running_gateway(configuration(pool, routes=(route,))) as gateway:
        homes = {}
        for number in range(12):
            gateway.u = number / 12
            session = f"session-{number % 4}"
            home = await worker({"x-headworks-session": session})
            assert homes.setdefault(session, home) == home
            assert await worker({"x-session-id": session}) == home
            # without a session the end user counts
            assert await worker({}, user=session) == home
        assert set(homes.values()) == {"pool_a-0", "pool_a-1"}
        decision: Any = gateway.books.ends[-1].decision
        (attempt,) = decision["attempts"]
        assert attempt["terms"] == {"load": 0, "load_bound": 1, "is_moved": False}


async def test_whoever_may_can_ask_one_target_whatever_its_weight(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(Behaviour(status=500))
    pools = (pool_record("a", upstream.base_url), pool_record("b", other_upstream.base_url))
    route = route_record("a", "b", weights=(1, 0), max_attempts=5)
    picked = {"x-headworks-target": "tgt_b"}
    async with running_gateway(configuration(*pools, routes=(route,))) as gateway:
        assert (await chat(gateway.port)).status == 502
        assert other_upstream.calls == []
        assert (await ask(gateway.port, picked, token=DEBUG_TOKEN)).status == 200
        assert len(other_upstream.calls) == 1
        refused = await ask(gateway.port, picked)
        assert (refused.status, refused.error["code"]) == (403, "insufficient_scope")
        unknown = await ask(gateway.port, {"x-headworks-target": "x"}, token=DEBUG_TOKEN)
        assert (unknown.status, unknown.error["param"]) == (400, "x-headworks-target")


def facts_of(
    *raw: tuple[bytes, bytes],
    rules: tuple[RuleRecord, ...] = (),
    endpoint: Endpoint = Endpoint.CHAT,
    **fields: object,
) -> RequestFacts:
    """The facts of a request with these headers and fields, under a route with these rules."""
    request = parse_request(endpoint, json.dumps({**BASE, **fields}).encode())
    return facts_for(
        request,
        read_headers(raw),
        identity=key_record(TOKEN),
        looked_at=headers_of(route_record("a", rules=rules)),
    )


def looking_at(*names: str) -> RuleRecord:
    when = MatchRecord(headers=tuple((name, "1") for name in names))
    return RuleRecord("r", "r", when, (target("a"),))


def test_only_headers_that_a_rule_looks_at_are_read() -> None:
    raw = (
        (b"x-a", b"1"),
        (b"x-secret", b"s"),
        (b"x-b", "\u00fc".encode()),
        (b"x-a", b"2"),
        (b"x-c", b"x" * (MAX_CHARS + 1)),
    )
    assert facts_of(*raw).headers == ()
    rules = (looking_at("x-a"), looking_at("x-b", "x-c"))
    assert facts_of(*raw, rules=rules).headers == (("x-a", "1"), ("x-b", "\u00fc"), ("x-a", "2"))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"user": "anna"}, "anna"),
        ({"safety_identifier": "hash"}, "hash"),
        ({"user": "anna", "safety_identifier": "hash"}, "anna"),
        ({"user": None, "safety_identifier": "hash"}, "hash"),
        ({"user": ""}, None),
        ({"user": 7}, None),
        ({"user": ["anna"]}, None),
        ({"user": "a\u0000b\n"}, "a?b?"),
        ({"user": "x" * 999}, "x" * MAX_CHARS),
        ({"metadata": {"user_id": "anna"}}, None),
    ],
)
def test_an_end_user_is_whom_the_caller_names(
    fields: dict[str, object], expected: str | None
) -> None:
    assert facts_of(**fields).end_user == expected


def test_anthropics_end_user_is_in_the_metadata() -> None:
    message = {"endpoint": Endpoint.MESSAGES, "max_tokens": 5}
    assert facts_of(**message, metadata={"user_id": "anna"}, user="other").end_user == "anna"
    assert facts_of(**message, metadata=None).end_user is None
    assert facts_of(**message, metadata={"user_id": 7}).end_user is None


def test_a_key_in_place_of_an_end_user_or_session_is_blanked_out() -> None:
    facts = facts_of((b"x-session-id", TOKEN.encode()), user=f"me {TOKEN}")
    assert "secret-of-this-key" not in f"{facts.end_user} {facts.session}"


def test_our_own_session_header_counts_before_the_usual_one() -> None:
    usual, ours = (b"x-session-id", b"usual"), (b"x-headworks-session", b"ours")
    assert facts_of(usual).session == "usual"
    assert facts_of(ours, usual).session == "ours"
    assert facts_of((b"x-session-id", b" ")).session is None


def test_tags_of_several_headers_are_one_list() -> None:
    tags = b"x-headworks-tags"
    assert facts_of((tags, b"a, b"), (tags, b",b,c,")).tags == ("a", "b", "c")


def test_a_prompt_is_estimated_by_its_text() -> None:
    text = [{"role": "user", "content": "word " * 400}]
    plain = facts_of(messages=text)
    assert 500 < plain.prompt_tokens < 540
    picture = {"url": "data:image/png;base64," + "A" * 8_000}
    parts = [{"type": "image_url", "image_url": picture}]
    seen = facts_of(messages=[*text, {"role": "user", "content": parts}])
    assert seen.prompt_tokens - plain.prompt_tokens < 60
    assert seen.prompt_tokens_max > 8_000


NAMES = st.sampled_from((TAGS, TASK, PRIORITY, SESSION, ANY_SESSION, TARGET, b"x-a", b"x-other"))
SENT = st.lists(st.tuples(NAMES, st.binary(max_size=300)), max_size=6)


@given(raw=SENT, user=st.one_of(st.none(), st.text(max_size=300), st.integers()))
def test_whatever_headers_hold_is_understood_or_refused(
    raw: list[tuple[bytes, bytes]], user: object
) -> None:
    try:
        facts = facts_of(*raw, rules=(looking_at("x-a"),), user=user)
    except (InvalidRequest, InsufficientScope):
        return
    told = (facts.end_user, facts.session)
    assert all(text is None or text.isprintable() for text in told)
    assert {name for name, _ in facts.headers} <= {"x-a"}
    assert facts_from_record(json.loads(json.dumps(facts_record(facts)))) == facts
