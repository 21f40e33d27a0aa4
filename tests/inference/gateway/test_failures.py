"""What a worker's refusals mean, and what of them a caller is shown."""

import json

import pytest

from inference.errors import (
    ErrorCode,
    GatewayError,
    UpstreamBadAnswer,
    UpstreamCredentialRefused,
    UpstreamError,
    UpstreamFailed,
    UpstreamModelMissing,
    UpstreamRefused,
    UpstreamSaturated,
    UpstreamTimedOut,
)
from inference.gateway.error_responses import error_body, error_response
from inference.gateway.failures import (
    MAX_MESSAGE_CHARS,
    failure_of_error_member,
    failure_of_refusal,
    failure_of_status,
)

SECRET = b"sk-upstream-1234"


def failure(status: int, body: str = "", *, retry_after: bytes = b"") -> UpstreamError:
    saturated = frozenset((429, 503))
    decided = failure_of_status(status, saturated=saturated, retry_after=retry_after)
    return decided or failure_of_refusal(status, body.encode(), secret=SECRET)


@pytest.mark.parametrize(
    ("status", "kind", "shown"),
    [
        (301, UpstreamBadAnswer, 502),
        (401, UpstreamCredentialRefused, 502),
        (403, UpstreamCredentialRefused, 502),
        (404, UpstreamModelMissing, 502),
        (408, UpstreamTimedOut, 504),
        (429, UpstreamSaturated, 503),
        (500, UpstreamFailed, 502),
        (502, UpstreamFailed, 502),
        (503, UpstreamSaturated, 503),
        (504, UpstreamFailed, 502),
    ],
)
def test_a_workers_trouble_is_tried_elsewhere(
    status: int, kind: type[UpstreamError], shown: int
) -> None:
    error = failure(status, "<html>")
    assert type(error) is kind
    assert (error.http_status, error.is_retryable, error.upstream_status) == (shown, True, status)


@pytest.mark.parametrize(
    ("body", "envelope"),
    [
        (
            {"error": {"message": "no", "type": "t", "param": "p", "code": "c"}},
            {"message": "no", "type": "t", "param": "p", "code": "c"},
        ),
        (
            {"object": "error", "message": "no", "type": "BadRequestError", "code": 400},
            {
                "message": "no",
                "type": "BadRequestError",
                "param": None,
                "code": "upstream_refused",
            },
        ),
        (
            {"detail": [{"loc": ["body"], "msg": "missing"}]},
            {
                "message": '[{"loc":["body"],"msg":"missing"}]',
                "type": "invalid_request_error",
                "param": None,
                "code": "upstream_refused",
            },
        ),
        (
            {"error": "no"},
            {
                "message": "no",
                "type": "invalid_request_error",
                "param": None,
                "code": "upstream_refused",
            },
        ),
    ],
)
def test_the_callers_own_faults_come_back_in_one_shape(
    body: dict[str, object], envelope: dict[str, object]
) -> None:
    error = failure(400, json.dumps(body))
    assert isinstance(error, UpstreamRefused)
    assert (error.http_status, error.is_retryable) == (400, False)
    assert json.loads(error_body(error)) == {"error": envelope}


@pytest.mark.parametrize("body", ["", "<html>bad</html>", "[]", "3", '{"error":'])
def test_a_refusal_nobody_can_read_is_a_bad_answer(body: str) -> None:
    assert type(failure(400, body)) is UpstreamBadAnswer


def test_what_a_worker_says_is_bounded_and_never_repeats_our_credential() -> None:
    long = "x" * 10_000
    body = json.dumps({"error": {"message": f"Bad key sk-upstream-1234 {long}", "code": long}})
    shown = json.loads(error_body(failure(400, body)))["error"]
    assert shown["message"].startswith("Bad key *** x")
    assert len(shown["message"]) == MAX_MESSAGE_CHARS
    assert len(shown["code"]) == 100


@pytest.mark.parametrize(
    ("header", "seconds"),
    [(b"7", b"7"), (b"0", b"1"), (b"99999", b"3600"), (b"", b"5"), (b"Wed, 21 Oct", b"5")],
)
def test_a_saturated_worker_says_when_to_come_back(header: bytes, seconds: bytes) -> None:
    response = error_response(failure(503, retry_after=header))
    assert response.headers[0] == (b"retry-after", seconds)
    assert response.headers[1:] == (((b"x-should-retry", b"false"),) if int(seconds) > 60 else ())


@pytest.mark.parametrize(
    ("member", "kind"),
    [
        ({"code": 502}, UpstreamFailed),
        ({"message": "x"}, UpstreamFailed),
        ("text", UpstreamFailed),
        ({"code": 404}, UpstreamModelMissing),
        ({"code": 429}, UpstreamSaturated),
        ({"code": 401}, UpstreamCredentialRefused),
        ({"code": 400, "message": "too long"}, UpstreamRefused),
        ({"code": "rate_limit"}, UpstreamFailed),
    ],
)
def test_an_error_in_place_of_an_answer_is_judged_by_its_code(
    member: object, kind: type[UpstreamError]
) -> None:
    assert type(failure_of_error_member(json.dumps(member).encode(), secret=b"")) is kind


def _all_errors(kind: type[GatewayError] = GatewayError) -> list[type[GatewayError]]:
    return [kind, *(error for child in kind.__subclasses__() for error in _all_errors(child))]


def test_every_error_has_a_code_of_the_vocabulary_and_every_code_an_error() -> None:
    assert {error.code for error in _all_errors()} == set(ErrorCode)


@pytest.mark.parametrize(
    "kind", [one for one in _all_errors() if not issubclass(one, UpstreamRefused)]
)
def test_every_error_becomes_an_envelope(kind: type[GatewayError]) -> None:
    response = error_response(kind())
    error = json.loads(response.body)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"] == kind.message
    assert error["code"] == kind.code
    assert (response.status == 503) is bool(
        response.headers and response.headers[0][0] == b"retry-after"
    )
