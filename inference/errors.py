"""Everything that can go wrong with a request, as one tree with a closed vocabulary.

An error knows its code, the status a caller sees, whose fault it is, and whether another attempt
may help. How it looks on the wire is `gateway.error_responses`' business.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar

from inference.contract import refusals
from inference.contract.error_codes import ErrorCode as ErrorCode


class Fault(StrEnum):
    """Whose doing an error is."""

    CALLER = "caller"
    UPSTREAM = "upstream"
    GATEWAY = "gateway"


class GatewayError(Exception):
    """The root. `str(error)` is safe to show to the caller: no secret, no address, no prompt.

    `is_retryable` says that another worker may do better; `may_repeat` that even the same one may.
    """

    code: ClassVar[ErrorCode] = ErrorCode.INTERNAL_ERROR
    fault: ClassVar[Fault] = Fault.GATEWAY
    is_retryable: ClassVar[bool] = False
    may_repeat: bool = False
    message: ClassVar[str] = "The gateway failed to answer this request."
    http_status: int = 500

    def __init__(
        self, message: str = "", *, param: str | None = None, retry_after_s: int | None = None
    ) -> None:
        super().__init__(message or self.message)
        self.param = param
        self.retry_after_s = retry_after_s


class CallerError(GatewayError):
    """The request cannot be served as it was sent."""

    fault = Fault.CALLER
    http_status = 400


class InvalidRequest(CallerError):
    code = ErrorCode.INVALID_REQUEST
    message = "The request is not valid."


class InvalidApiKey(CallerError):
    code = ErrorCode.INVALID_API_KEY
    http_status = 401
    message = "The API key is not valid."


class InsufficientScope(CallerError):
    code = ErrorCode.INSUFFICIENT_SCOPE
    http_status = 403
    message = "This API key may not do that."


class SwitchedOff(CallerError):
    """A kill switch is thrown on the caller's organisation, project or key, or on the route."""

    code = ErrorCode.SWITCHED_OFF
    http_status = 403
    message = refusals.SWITCHED_OFF


class ModelNotFound(CallerError):
    """The same answer for a model that isn't there and for one the key may not see."""

    code = ErrorCode.MODEL_NOT_FOUND
    http_status = 404
    message = refusals.MODEL_NOT_FOUND


class ResponseNotFound(CallerError):
    """A worker could have kept one only for itself, so none is asked to."""

    code = ErrorCode.RESPONSE_NOT_FOUND
    http_status = 404
    message = "Responses are not stored here, so there is none to be read, cancelled or removed."


class PathNotFound(CallerError):
    code = ErrorCode.PATH_NOT_FOUND
    http_status = 404
    message = "There is nothing at this path."


class MethodNotAllowed(CallerError):
    code = ErrorCode.METHOD_NOT_ALLOWED
    http_status = 405
    message = "This path does not answer that method."

    def __init__(self, *allowed: str) -> None:
        super().__init__()
        self.allowed = allowed


class NotCached(CallerError):
    """The caller wanted a kept answer or none (`Cache-Control: only-if-cached`)."""

    code = ErrorCode.NOT_CACHED
    http_status = 504
    message = "No answer to this request is kept, and no other was wanted."


class RequestTimeout(CallerError):
    code = ErrorCode.REQUEST_TIMEOUT
    http_status = 408
    message = "The request body did not arrive in time."


class RequestTooLarge(CallerError):
    code = ErrorCode.REQUEST_TOO_LARGE
    http_status = 413
    message = "The request body is too large."


class UnsupportedEncoding(CallerError):
    code = ErrorCode.UNSUPPORTED_ENCODING
    http_status = 415
    message = "Request bodies must be sent without a content encoding."


class RateLimitExceeded(CallerError):
    """A limit of the caller's is reached; it took nothing of any other."""

    code = ErrorCode.RATE_LIMIT_EXCEEDED
    http_status = 429
    message = "A rate limit is reached."


class BudgetExceeded(RateLimitExceeded):
    """Too little is left of a budget of the caller's for what the request may cost."""

    code = ErrorCode.BUDGET_EXCEEDED
    message = "A budget is used up."


class UpstreamError(GatewayError):
    """A worker did not do its part. `was_sent` says whether it may have seen the request."""

    code = ErrorCode.UPSTREAM_FAILED
    fault = Fault.UPSTREAM
    is_retryable = True
    http_status = 502
    message = "The model's worker failed to answer."
    was_sent: ClassVar[bool] = True

    def __init__(
        self,
        message: str = "",
        *,
        param: str | None = None,
        retry_after_s: int | None = None,
        upstream_status: int | None = None,
    ) -> None:
        super().__init__(message, param=param, retry_after_s=retry_after_s)
        self.upstream_status = upstream_status


class UpstreamFailed(UpstreamError):
    """It answered 5xx, or put an error where the answer should be."""

    may_repeat = True


class UpstreamUnreachable(UpstreamError):
    """No connection: refused, timed out or the name is unknown."""

    code = ErrorCode.UPSTREAM_UNREACHABLE
    may_repeat = True
    http_status = 503
    message = "The model's worker cannot be reached."
    was_sent = False


class UpstreamForbidden(UpstreamError):
    """Its name resolved to an address nothing may be sent to."""

    code = ErrorCode.UPSTREAM_FORBIDDEN
    message = "The model's worker has an address that may not be called."
    was_sent = False


class UpstreamTimedOut(UpstreamError):
    code = ErrorCode.UPSTREAM_TIMEOUT
    http_status = 504
    message = "The model's worker did not answer in time."


class AttemptOverdue(UpstreamTimedOut):
    """Its target's time limit for a whole attempt has passed, whoever took the time."""


class UpstreamClosed(UpstreamError):
    """The connection ended before the answer was whole."""

    code = ErrorCode.UPSTREAM_CLOSED
    may_repeat = True
    message = "The model's worker closed the connection before its answer was complete."


class UpstreamSaturated(UpstreamError):
    """It is full, not broken: another may have room."""

    code = ErrorCode.UPSTREAM_SATURATED
    http_status = 503
    message = "The model's workers are busy."


class UpstreamBadAnswer(UpstreamError):
    """Not HTTP, not JSON, not an event stream, or too large."""

    code = ErrorCode.UPSTREAM_BAD_ANSWER
    message = "The model's worker gave an answer that cannot be read."


class UpstreamModelMissing(UpstreamError):
    """It does not serve this model: a fact about that target, not about the request."""

    code = ErrorCode.UPSTREAM_MODEL_MISSING
    message = "The model's worker does not serve this model."


class UpstreamCredentialRefused(UpstreamError):
    """It refused our credential, which is nothing the caller can mend."""

    code = ErrorCode.UPSTREAM_CREDENTIAL
    message = "The model's worker refused the gateway's credential."


class UpstreamRefused(UpstreamError):
    """It found fault with the request itself; `detail` is its own envelope, bounded."""

    code = ErrorCode.UPSTREAM_REFUSED
    fault = Fault.CALLER
    is_retryable = False
    message = "The model's worker refused the request."

    def __init__(self, upstream_status: int, detail: Mapping[str, object]) -> None:
        super().__init__(str(detail.get("message") or ""), upstream_status=upstream_status)
        self.http_status = upstream_status
        self.detail = detail


class UpstreamPromptTooLong(UpstreamRefused):
    """The request doesn't fit the model's context: a model with a larger one may take it."""

    is_retryable = True

    def __init__(self, upstream_status: int, detail: Mapping[str, object]) -> None:
        super().__init__(upstream_status, {**detail, "code": "context_length_exceeded"})

    def name_limit(self, context_tokens: int) -> None:
        """Add how long a context the model takes, if the worker's words have no number."""
        if not any(map(str.isdigit, str(self))):
            words = f"{self} The model's context takes {context_tokens} tokens."
            self.args = (words,)
            self.detail = {**self.detail, "message": words}


class NoCapacity(GatewayError):
    """The route is known, but no worker of it can take a request now."""

    code = ErrorCode.NO_CAPACITY
    http_status = 503
    message = refusals.NO_CAPACITY


class TargetsSwitchedOff(GatewayError):
    """Kill switches are thrown on the pools or models that are left of the route."""

    code = ErrorCode.SWITCHED_OFF
    http_status = 503
    message = refusals.TARGETS_SWITCHED_OFF


class LimitsUnavailable(GatewayError):
    """A strict limit bears on it, and nobody can be asked what is left of that."""

    code = ErrorCode.LIMITS_UNAVAILABLE
    http_status = 503
    message = "The request's limits cannot be checked at the moment."


class BudgetsUnavailable(LimitsUnavailable):
    """A budget that blocks bears on it, and nobody can be asked what is left of that."""

    code = ErrorCode.BUDGETS_UNAVAILABLE
    message = "The request's budgets cannot be checked at the moment."


class QueueFull(GatewayError):
    """Too many wait for the route's workers already, or somebody more urgent came."""

    code = ErrorCode.QUEUE_FULL
    http_status = 503
    message = "All workers of this model are busy, and too many requests wait for them already."


class QueueTimeout(GatewayError):
    """It waited for as long as its route allows, and no worker had room."""

    code = ErrorCode.QUEUE_TIMEOUT
    http_status = 503
    message = "All workers of this model are busy, and none had room in time."


class RequestShed(GatewayError):
    """The route is so busy that it serves more urgent requests only."""

    code = ErrorCode.REQUEST_SHED
    http_status = 503
    message = "This model is so busy that it takes only more urgent requests for now."


class HedgeLost(GatewayError):
    """Not a request's end, an attempt's: another worker that was asked as well came first."""

    code = ErrorCode.HEDGE_LOST
    message = "Another worker answered first."


class AccountingUnavailable(GatewayError):
    """A strict route cannot write what it would owe, so it does not serve."""

    code = ErrorCode.ACCOUNTING_UNAVAILABLE
    http_status = 503
    message = "The request cannot be accounted for at the moment."


class DeadlineExceeded(GatewayError):
    code = ErrorCode.DEADLINE_EXCEEDED
    http_status = 504
    message = "The route's time limit for a whole request has passed."


class ClientStalled(GatewayError):
    """The client stopped reading its stream for longer than the route's idle time-out."""

    code = ErrorCode.CLIENT_STALLED
    fault = Fault.CALLER
    http_status = 408
    message = "The answer was not read in time."


class ClientLeft(GatewayError):
    """Nobody is left to answer; the status is for the books only."""

    code = ErrorCode.CLIENT_LEFT
    fault = Fault.CALLER
    http_status = 499
    message = "The client closed the connection."


class GatewayStopping(GatewayError):
    code = ErrorCode.GATEWAY_STOPPING
    http_status = 503
    message = "This gateway is stopping."


class InternalError(GatewayError):
    """A fault of ours that nobody foresaw."""
