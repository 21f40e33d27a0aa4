"""The API describes itself, offline and under the console's content security policy."""

import json
import re
from io import StringIO
from typing import Any

import pytest
from django.conf import settings
from django.core.management import call_command
from django.test import Client
from drf_spectacular.validation import validate_schema

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    out = StringIO()
    call_command("spectacular", format="openapi-json", fail_on_warn=True, stdout=out)
    document: dict[str, Any] = json.loads(out.getvalue())
    return document


def test_the_document_is_valid(schema: dict[str, Any]) -> None:
    validate_schema(schema)


def test_the_document_is_openapi_3_1_and_complete(schema: dict[str, Any]) -> None:
    assert schema["openapi"] == "3.1.0"
    nouns = (
        *("organisations", "teams", "projects", "models", "prices", "pools", "routes", "keys"),
        *("limits", "budgets", "switches", "alert-rules"),
        *("silences", "channels", "deliveries", "caches"),
    )
    for noun in nouns:
        assert set(schema["paths"][f"/api/v1/{noun}/"]) >= {"get", "post"}
        assert set(schema["paths"][f"/api/v1/{noun}/{{id}}/"]) >= {"get", "patch"}
    for path in ("/api/v1/snapshots/", "/api/v1/audit/"):
        assert set(schema["paths"][path]) == {"get"}
    for action in ("revoke", "rotate"):
        assert set(schema["paths"][f"/api/v1/keys/{{id}}/{action}/"]) == {"post"}


def test_the_document_says_that_a_token_is_sent(schema: dict[str, Any]) -> None:
    scheme = schema["components"]["securitySchemes"]["token"]
    assert (scheme["type"], scheme["scheme"]) == ("http", "bearer")


def test_secrets_go_in_and_never_out(schema: dict[str, Any]) -> None:
    shapes = schema["components"]["schemas"]
    assert "credential" in shapes["PoolRequest"]["properties"]
    assert "credential" not in shapes["Pool"]["properties"]
    for name in ("url", "secret"):
        assert name in shapes["ChannelRequest"]["properties"]
        assert name not in shapes["Channel"]["properties"]
    assert "key" in shapes["NewKey"]["properties"]
    assert "key" not in shapes["Key"]["properties"]


def test_every_operation_tells_its_errors_and_every_write_its_headers(
    schema: dict[str, Any],
) -> None:
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            refusal = operation["responses"]["default"]["content"]["application/json"]["schema"]
            assert refusal == {"$ref": "#/components/schemas/Error"}
            headers = {
                one["name"] for one in operation.get("parameters", []) if one["in"] == "header"
            }
            expected = set() if method == "get" else {"X-Headworks-Reason"}
            if expected and ("{id}" in path or "{name}" in path or path.endswith("/restore/")):
                expected.add("If-Match")
            if method == "post":
                expected.add("Idempotency-Key")
            assert headers == expected
            assert operation["description"].startswith(operation["description"][0].upper())


def test_money_is_text(schema: dict[str, Any]) -> None:
    price = schema["components"]["schemas"]["Price"]["properties"]
    assert price["input_nanousd_per_mtok"]["type"] == ["string", "null"]


def test_kinds_are_enumerated(schema: dict[str, Any]) -> None:
    pool = schema["components"]["schemas"]["Pool"]["properties"]
    name = pool["provisioner"]["$ref"].rpartition("/")[2]
    assert schema["components"]["schemas"][name]["enum"] == ["static", "process", "fake"]


def test_the_pages_need_nothing_inline_and_nothing_from_elsewhere(collected_files: None) -> None:
    client = Client()
    page = client.get("/api/docs/")
    text = page.content.decode()
    assert page.status_code == 200
    assert "'unsafe-inline'" not in page["Content-Security-Policy"]
    assert re.search(r"<script(?![^>]*\bsrc=)", text) is None
    assert "<style" not in text
    assert " style=" not in text
    sources = re.findall(r'(?:src|href)="([^"]+)"', text)
    assert len(sources) == 5
    assert all(source.startswith("/") and not source.startswith("//") for source in sources)
    script = client.get(sources[-1].replace("&amp;", "&"))
    assert script.status_code == 200
    assert script["Content-Type"].startswith("application/javascript")
    assert "/api/schema/" in script.content.decode()
    for source in sources[:-1]:
        relative = source.removeprefix(settings.STATIC_URL)
        assert (settings.STATIC_ROOT / relative).exists()


def test_the_document_is_served_without_a_token(db: None) -> None:
    response = Client().get("/api/schema/", headers={"accept": "application/vnd.oai.openapi+json"})
    assert response.status_code == 200
    assert response.json()["info"]["title"] == "Headworks"
