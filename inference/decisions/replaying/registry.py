"""Which endpoint's answers have which form."""

from collections.abc import Mapping

from inference.contract.kinds import Endpoint
from inference.decisions.replaying.base import Form
from inference.decisions.replaying.chunks import ChatForm, CompletionForm
from inference.decisions.replaying.messages import MessageForm
from inference.decisions.replaying.readings import ReadingForm
from inference.decisions.replaying.responses import ResponseForm

FORMS: Mapping[Endpoint, Form] = {
    Endpoint.CHAT: ChatForm(),
    Endpoint.COMPLETIONS: CompletionForm(),
    Endpoint.RESPONSES: ResponseForm(),
    Endpoint.MESSAGES: MessageForm(),
    Endpoint.EMBEDDINGS: ReadingForm(),
    Endpoint.RERANK: ReadingForm(),
    Endpoint.SCORE: ReadingForm(),
}
