"""What official clients are told when a worker that knows chat alone can't answer their dialect."""

from typing import Any

import anthropic
import openai
import pytest

from inference.contract.kinds import Outcome
from tests.inference.gateway.rig import Gateway
from tests.inference.gateway.test_bridged_clients import gateway
from tests.inference.gateway.test_clients import (
    CONVERSATION,
    anthropic_client,
    check_closed_streams,
    openai_client,
)
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour

__all__ = ["gateway"]

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("behaviour", "kind", "status"),
    [
        (Behaviour(status=400, body='{"error":{"message":"no"}}'), "BadRequestError", 400),
        (Behaviour(status=500), "InternalServerError", 502),
        (Behaviour(status=503), "InternalServerError", 503),
        (Behaviour(body='{"choices":[{"message":{"content":5}}]}'), "InternalServerError", 502),
        (Behaviour(before_head="close"), "InternalServerError", 502),
    ],
)
async def test_errors_are_of_the_clients_own_kinds(
    gateway: Gateway, upstream: Upstream, behaviour: Behaviour, kind: str, status: int
) -> None:
    upstream.play(behaviour)
    async with openai_client(gateway) as client:
        with pytest.raises(getattr(openai, kind)) as caught:
            await client.responses.create(model="m", input="a")
        assert caught.value.status_code == status
    async with anthropic_client(gateway) as other:
        with pytest.raises(getattr(anthropic, kind)) as failed:
            await other.messages.create(model="m", max_tokens=9, messages=CONVERSATION)
        assert failed.value.status_code == status
        assert failed.value.request_id == gateway.books.ends[-1].event_id


async def test_what_chat_has_no_words_for_is_refused_by_name(
    gateway: Gateway, upstream: Upstream
) -> None:
    search: Any = {"type": "web_search_20250305", "name": "web_search"}
    async with anthropic_client(gateway) as other:
        with pytest.raises(anthropic.BadRequestError) as refused:
            await other.messages.create(
                model="m", max_tokens=9, messages=CONVERSATION, tools=[search]
            )
        assert refused.value.body == {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "`tools.0.type` cannot be carried over: the model behind this route "
                "speaks chat completions only.",
                "details": {"error_code": "invalid_request", "param": "tools.0.type"},
            },
        }
    async with openai_client(gateway) as client:
        with pytest.raises(openai.BadRequestError) as told:
            await client.responses.create(model="m", input="a", tools=[{"type": "web_search"}])
        assert (told.value.param, told.value.code) == ("tools[0].type", "invalid_request")
        with pytest.raises(openai.BadRequestError) as stored:
            await client.responses.create(model="m", input="a", previous_response_id="resp_1")
        assert stored.value.param == "previous_response_id"
    assert upstream.calls == []
    assert [(end.outcome, end.charges) for end in gateway.books.ends] == [(Outcome.REFUSED, ())] * 3


async def test_a_stream_that_dies_raises_in_both_clients(
    gateway: Gateway, upstream: Upstream
) -> None:
    upstream.play(Behaviour(cut_after=4, ending="reset"))
    async with openai_client(gateway) as client:
        stream = await client.responses.create(model="m", input="a", stream=True)
        with pytest.raises(openai.APIError) as caught:
            _ = [event async for event in stream]
        assert caught.value.code == "upstream_closed"
    async with anthropic_client(gateway) as other:
        messages = await other.messages.create(
            model="m", max_tokens=9, messages=CONVERSATION, stream=True
        )
        with pytest.raises(anthropic.APIStatusError) as failed:
            _ = [event async for event in messages]
        assert (failed.value.type, failed.value.error_code) == ("api_error", "upstream_closed")
    assert [end.outcome for end in gateway.books.ends] == [Outcome.ERROR] * 2


async def test_a_stream_that_is_closed_by_its_client_is_left_by_the_gateway(
    gateway: Gateway, upstream: Upstream
) -> None:
    await check_closed_streams(gateway, upstream)
