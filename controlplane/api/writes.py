"""What every write of the API can be asked for: to be tried out, or to be done exactly once."""

import hashlib
import hmac
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from django.conf import settings
from django.db import transaction
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.api.filters import DRY_RUN, refuse_unknown
from controlplane.api.serializers.drafts import DraftSerializer
from controlplane.errors import Invalid
from controlplane.models import ServiceAccount
from controlplane.services.drafts import draft
from controlplane.services.idempotency import (
    MAX_KEY_LENGTH,
    Answer,
    claim_or_recall,
    keep_answer,
)
from inference.contract.sealing import subkey

IDEMPOTENCY_HEADER = "Idempotency-Key"
REPLAYED_HEADER = "Idempotency-Replayed"

WRITES = frozenset(("post", "patch", "put", "delete"))

Handler = Callable[..., Response]

Asked = tuple[str, str, Mapping[str, str]]
"""A noun, an organisation and a place, as `Access.may_write` was asked of them."""


class WriteConventions(APIView):
    """Adds `?dry_run=true` to every write of a view, and Idempotency-Key to every POST.

    `is_draft` tells a handler that nothing it does will last. `asked` is what the caller had to be
    allowed, noted by the handler as it asks.
    """

    write_parameters: ClassVar[frozenset[str]] = frozenset()
    """Query parameters of a POST besides, where they say which row it is about."""
    is_draft = False
    asked: Sequence[Asked] = ()

    def require_again(self, asked: Sequence[Asked]) -> None:
        """Raise NotAllowed unless the caller may still do what he was once allowed."""
        raise NotImplementedError

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        method = str(request.method).lower()
        handler = getattr(self, method, None)
        if method not in WRITES or handler is None:
            return
        if method == "post":
            # a slip in `dry_run` would do what was only to be tried out
            refuse_unknown(request, (DRY_RUN, *self.write_parameters))
        key = request.headers.get(IDEMPOTENCY_HEADER) if method == "post" else None
        if _is_dry_run(request):
            self.is_draft = True
            setattr(self, method, partial(_drafted, handler))
        elif key is not None:
            setattr(self, method, partial(_once, self, handler, _checked(key)))


def caller_of(request: Request) -> str:
    """Who calls, as keys are scoped by it: what one caller's key was, another never learns."""
    kind = "service_account" if isinstance(request.user, ServiceAccount) else "user"
    return f"{kind}:{request.user.pk}"


def _is_dry_run(request: Request) -> bool:
    given = request.query_params.get(DRY_RUN, "false")
    if given not in ("true", "false"):
        raise Invalid.field(DRY_RUN, "Give true or false.")
    return given == "true"


def _drafted(handler: Handler, request: Request, *args: Any, **kwargs: Any) -> Response:
    return Response(DraftSerializer(draft(lambda: handler(request, *args, **kwargs))).data)


def _once(
    view: WriteConventions, handler: Handler, key: str, request: Request, *args: Any, **kwargs: Any
) -> Response:
    """Do it and keep the answer, or repeat the answer; a refusal is kept for nobody.

    The answer may hold a secret, so it is repeated only to who may still do what it answers.
    """
    with transaction.atomic():
        found = claim_or_recall(
            caller=caller_of(request), key=key, fingerprint=_fingerprint(request)
        )
        if isinstance(found, Answer):
            view.require_again(found.asked)
            headers = {**found.headers, REPLAYED_HEADER: "true"}
            return Response(found.data, status=found.status, headers=headers)
        response = handler(request, *args, **kwargs)
        keep_answer(found, _answer_of(request, response, view.asked))
    return response


def _answer_of(request: Request, response: Response, asked: Sequence[Asked]) -> Answer:
    rendered = request.accepted_renderer.render(response.data)
    headers = {"ETag": response["ETag"]} if response.has_header("ETag") else {}
    data = json.loads(rendered) if rendered else None
    return Answer(response.status_code, headers, data, tuple(asked))


def _checked(key: str) -> str:
    if not 0 < len(key) <= MAX_KEY_LENGTH or not (key.isascii() and key.isprintable()):
        message = f"Give 1 to {MAX_KEY_LENGTH} printable ASCII characters."
        raise Invalid.field(IDEMPOTENCY_HEADER, message)
    return key


def _fingerprint(request: Request) -> str:
    """Of the request a key belongs to; keyed, for a body may hold a secret."""
    told = [
        request.method,
        request.get_full_path(),
        request.headers.get("If-Match", ""),
        request.data,
    ]
    text = json.dumps(told, sort_keys=True).encode()
    key = subkey(settings.HEADWORKS.data_key_bytes, "idempotency")
    return hmac.new(key, text, hashlib.sha256).hexdigest()
