"""OpenAI's official client on plain texts and on vectors."""

import json

import pytest

from inference.contract.events import Usage
from inference.contract.kinds import Backend, Endpoint
from tests.inference.gateway.rig import Gateway, configuration, pool_record, running_gateway
from tests.inference.gateway.test_clients import openai_client
from tests.inference.gateway.test_endpoints import models_for
from tests.upstream.fixtures import Upstream
from tests.upstream.script import DEFAULT_TEXT as TEXT

pytestmark = pytest.mark.slow


async def test_the_official_client_completes_texts(gateway: Gateway) -> None:
    async with openai_client(gateway) as client:
        whole = await client.completions.create(
            model="m", prompt=["a", "b"], n=2, echo=True, logprobs=1
        )
        assert [one.index for one in whole.choices] == [0, 1, 2, 3]
        assert [one.text for one in whole.choices] == [f"a {TEXT}"] * 2 + [f"b {TEXT}"] * 2
        assert whole.usage is not None
        assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (20, 20)
        texts = ["", ""]
        async for chunk in await client.completions.create(
            model="m", prompt=[1, 2], n=2, stream=True
        ):
            texts[chunk.choices[0].index] += chunk.choices[0].text
        assert texts == [TEXT, TEXT]


async def test_the_official_client_embeds(upstream: Upstream) -> None:
    models = models_for(Endpoint.EMBEDDINGS)
    pool = pool_record("a", upstream.base_url, backend=Backend.OPENAI)
    async with (
        running_gateway(configuration(pool, models=models)) as gateway,
        openai_client(gateway) as client,
    ):
        answer = await client.embeddings.create(model="m", input="water")
        assert answer.data[0].embedding == pytest.approx([0.6, 0.8])
        assert json.loads(upstream.calls[-1].body or "")["encoding_format"] == "base64"
        answer = await client.embeddings.create(
            model="m", input=[[1, 2], [3]], encoding_format="float", dimensions=1
        )
        assert [one.embedding for one in answer.data] == [[0.6], [0.6]]
        assert answer.usage.prompt_tokens == 10
        assert [end.charges[0].usage for end in gateway.books.ends] == [Usage(10, 0)] * 2
