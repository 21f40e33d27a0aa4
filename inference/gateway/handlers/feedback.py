"""POST /v1/feedback: what somebody says of the answer to a request."""

import msgspec

from inference.errors import AccountingUnavailable, LimitsUnavailable, NoCapacity
from inference.gateway.auth import identify
from inference.gateway.downstream import Downstream
from inference.gateway.feedback import MAX_BODY_BYTES, feedback_of
from inference.gateway.headers import answer_headers
from inference.gateway.identifiers import RANDOM_BITS, event_id
from inference.gateway.refusals import check_caller
from inference.gateway.services import Services
from inference.journal import JournalUnavailable

_encode = msgspec.json.Encoder().encode


async def take_feedback(services: Services, downstream: Downstream) -> None:
    """202 once it is written down for the ledger, which knows if there was such a request.

    It counts as a request on the limits of its caller.
    """
    snapshot = services.snapshots.current
    if snapshot is None:
        raise NoCapacity("This gateway has no configuration yet.")
    now = services.clock()
    identity = identify(
        snapshot, downstream.headers.authorization, peppers=services.peppers, now=now
    )
    check_caller(snapshot, identity, now=now)
    request_id = event_id(int(now * 1000), services.random_bits(RANDOM_BITS))
    admission = services.limiter.admission(request_id, identity, end_user=None, plan=None, at_s=now)
    if admission is not None:
        try:
            await admission.take()
        except LimitsUnavailable:
            pass  # only requests that cost something are refused for that
        finally:
            if admission.settle(tuple):
                await services.limiter.leases.told()
    body = await downstream.read_body(MAX_BODY_BYTES)
    fact = feedback_of(body, identity, at_ms=int(now * 1000), gateway=services.gateway)
    try:
        await services.books.close(fact)
    except JournalUnavailable as error:
        services.metrics.lost_event()
        raise AccountingUnavailable("The feedback can't be written down at the moment.") from error
    services.metrics.experiments.feedback_taken()
    answer = _encode({"object": "feedback", "id": fact.event_id, "request_id": fact.request_id})
    await downstream.respond(202, answer_headers(request_id, content_length=len(answer)), answer)
