"""Which dialects can be said in other words: those of `endpoints.BRIDGES`."""

from collections.abc import Callable, Mapping

from inference.contract.kinds import Endpoint
from inference.decisions.bridging.base import Bridge, Document, Said, Tell
from inference.decisions.bridging.counts import say_count, tell_count
from inference.decisions.bridging.messages import say_message
from inference.decisions.bridging.pieces import Whole, read_whole
from inference.decisions.bridging.responses import say_response
from inference.decisions.bridging.told_messages import MessageTelling, tell_message
from inference.decisions.bridging.told_responses import ResponseTelling, tell_response


def _of_chat(tell: Callable[[Whole, Said], Document]) -> Tell:
    """Tells a completion that `tell` is given taken apart."""

    def told(body: bytes, *, answer_id: str, at: int, said: Said) -> Document:
        return tell(read_whole(body, answer_id=answer_id, at=at), said)

    return told


REGISTRY: Mapping[Endpoint, Bridge] = {
    Endpoint.RESPONSES: Bridge(say_response, _of_chat(tell_response), ResponseTelling),
    Endpoint.MESSAGES: Bridge(say_message, _of_chat(tell_message), MessageTelling),
    Endpoint.COUNT_TOKENS: Bridge(say_count, tell_count),
}
