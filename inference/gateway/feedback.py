"""What callers say of answers: read, bounded, and told as a fact."""

from hashlib import blake2b
from typing import Annotated

import msgspec

from inference.contract.events import Feedback
from inference.contract.params import MAX_COMMENT_BYTES, TAG_PATTERN
from inference.contract.sealing import without_secrets
from inference.contract.snapshot import KeyRecord
from inference.errors import InvalidRequest
from inference.gateway.schemas import kept_text

MAX_BODY_BYTES = 8 * 1024
_ID_BYTES = 16


class _Said(msgspec.Struct, forbid_unknown_fields=True):
    """The body of such a request."""

    request_id: Annotated[str, msgspec.Meta(pattern=r"^req_[0-9a-hjkmnp-tv-z]{26}$")]
    score: Annotated[float, msgspec.Meta(ge=-1, le=1)] | None = None
    label: Annotated[str, msgspec.Meta(pattern=TAG_PATTERN)] | None = None
    comment: str | None = None
    completed: bool | None = None
    user: str | None = None


_read = msgspec.json.Decoder(_Said).decode


def feedback_of(body: bytes, identity: KeyRecord, *, at_ms: int, gateway: str) -> Feedback:
    """The fact that a body is, or raise InvalidRequest naming what is wrong.

    All that one rater says of one request has one id, so whoever repeats it says it once.
    """
    try:
        said = _read(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(f"The feedback is not valid: {error}.") from error
    if (said.score, said.label, said.comment, said.completed) == (None,) * 4:
        message = "Feedback has a `score`, a `label`, a `comment` or `completed`."
        raise InvalidRequest(message)
    comment = said.comment
    if comment is not None and len(comment.encode("utf-8", "replace")) > MAX_COMMENT_BYTES:
        message = f"`comment` has at most {MAX_COMMENT_BYTES:,} bytes."
        raise InvalidRequest(message, param="comment")
    rater = kept_text(said.user)
    named = f"{identity.organisation_id}\0{said.request_id}\0{rater or ''}".encode()
    return Feedback(
        event_id=f"fbk_{blake2b(named, digest_size=_ID_BYTES).hexdigest()}",
        at_ms=at_ms,
        organisation_id=identity.organisation_id,
        project_id=identity.project_id,
        key_id=identity.id,
        gateway=gateway,
        request_id=said.request_id,
        rater=rater,
        score=said.score,
        label=said.label,
        comment=None if comment is None else _storable(comment),
        is_completed=said.completed,
    )


def _storable(comment: str) -> str:
    """A comment that any database can hold, on lines of its own; a key in it is blanked out."""
    text = without_secrets(comment)
    return "".join(one if one.isprintable() or one == "\n" else "?" for one in text)
