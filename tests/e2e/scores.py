"""What an engine for embeddings answers besides: scores, and documents in their order."""

from typing import Any

import openai
import pytest

from tests.installation import Installation, call_json, wait_until

QUERY = "Where does the water come from?"
DOCUMENTS = ["The stock market fell today.", "A spring in the hills feeds the river.", "Fish swim."]
PATHS = ("/v1/rerank", "/rerank", "/v2/rerank", "/v1/score", "/score")


def check_scores(installation: Installation, client: openai.OpenAI) -> None:
    """Rerank and score at the route `embed`, whose engine is up, and read their rows."""
    answers = {}
    for path in PATHS:
        fields: dict[str, Any] = {"model": "embed", "query": QUERY, "documents": DOCUMENTS}
        if path.endswith("score"):
            fields = {"model": "embed", "text_1": QUERY, "text_2": DOCUMENTS}
        url = f"{installation.demo['GATEWAY_URL']}{path}"
        answers[path] = call_json("POST", url, installation.demo["API_KEY"], fields)
    ranked = [answers[path]["results"] for path in PATHS[:3]]
    assert ranked[0][0]["index"] == 1
    assert all([one["index"] for one in each] == [1, *_others(ranked[0])] for each in ranked)
    scores = {one["index"]: one["score"] for one in answers["/score"]["data"]}
    for one in ranked[0]:
        assert one["relevance_score"] == pytest.approx(scores[one["index"]], abs=0.02)
    for endpoint, calls in (("rerank", 3), ("score", 2)):
        used = answers[f"/{endpoint}"]["usage"]["total_tokens"]
        assert [
            (row["prompt_tokens"], row["completion_tokens"], row["outcome"])
            for row in _rows(installation, endpoint, calls)
        ] == [(used, 0, "ok")] * calls
    with pytest.raises(openai.BadRequestError, match="not /v1/responses"):
        client.responses.create(model="embed", input="hello")


def _rows(installation: Installation, endpoint: str, calls: int) -> list[Any]:
    """The ledger's rows of so many calls of an endpoint."""

    def found() -> list[Any] | None:
        rows = installation.api("GET", f"/requests/?last=15m&endpoint={endpoint}")["results"]
        return rows if len(rows) >= calls else None

    rows: list[Any] = wait_until(found, 10, f"{calls} rows of {endpoint}")
    return rows


def _others(ranked: list[Any]) -> list[int]:
    return [one["index"] for one in ranked[1:]]
