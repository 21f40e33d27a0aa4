"""What the OpenAPI document says of every operation alike: errors, reasons, versions."""

from typing import Any

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import is_list_serializer
from rest_framework.views import APIView

from controlplane.api.filters import DRY_RUN
from controlplane.api.serializers.drafts import DraftSerializer
from controlplane.api.views.tenants import REASON_HEADER
from controlplane.api.writes import IDEMPOTENCY_HEADER, WRITES
from controlplane.services.idempotency import MAX_KEY_LENGTH

_ERROR = {
    "type": "object",
    "description": "Every answer from 400 up.",
    "properties": {
        "code": {"type": "string", "description": "For programs; see each operation."},
        "detail": {"type": "string", "description": "For people."},
        "fields": {
            "type": "object",
            "description": "Messages by dotted field, such as `targets.0.weight`.",
            "additionalProperties": {"type": "array", "items": {"type": "string"}},
        },
        "current_version": {"type": "integer", "description": "Of the object; with 412 alone."},
    },
    "required": ["code", "detail", "fields"],
}

_REASON = {
    "in": "header",
    "name": REASON_HEADER,
    "schema": {"type": "string"},
    "description": "Why; kept in the audit trail.",
}

_IF_MATCH = {
    "in": "header",
    "name": "If-Match",
    "schema": {"type": "string"},
    "description": "The ETag last seen; answers 412 if the object has changed since.",
}


_IDEMPOTENCY_KEY = {
    "in": "header",
    "name": IDEMPOTENCY_HEADER,
    "schema": {
        "type": "string",
        "minLength": 1,
        "maxLength": MAX_KEY_LENGTH,
        "pattern": "^[ -~]+$",
    },
    "description": (
        "A name of your own for this call. For 24 hours the same call under the same key is done "
        "once and answered alike; another call under it is a 422."
    ),
}

_DRY_RUN = {
    "in": "query",
    "name": DRY_RUN,
    "schema": {"type": "boolean", "default": False},
    "description": "Store nothing; answer 200 with a Draft of what the call would do.",
}


class OperationSchema(AutoSchema):
    """The framework's own, but that a view without pages answers one object, even to `list`.

    Unless it says itself that it answers several.
    """

    def _is_list_view(self, serializer: Any = None) -> bool:
        has_pages = getattr(self.view, "pagination_class", None) is not None
        is_several = has_pages or is_list_serializer(serializer)
        return is_several and bool(super()._is_list_view(serializer))


def tell_conventions(
    result: dict[str, Any], generator: Any, request: Any, public: bool
) -> dict[str, Any]:
    """Add the error shape to every operation, and what writes can be asked for to those."""
    draft = _register_draft(generator)
    result["components"]["schemas"].update(generator.registry.build({})["schemas"])
    result["components"]["schemas"]["Error"] = _ERROR
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    for path, operations in result["paths"].items():
        for method, operation in operations.items():
            operation["responses"]["default"] = {"description": "A refusal.", "content": content}
            if method in WRITES:
                _tell_write(path, method, operation, draft)
    return result


def _register_draft(generator: Any) -> dict[str, Any]:
    schema = AutoSchema()
    schema.registry, schema.view = generator.registry, APIView(request=None)
    reference: dict[str, Any] = schema.resolve_serializer(DraftSerializer(), "response").ref
    return reference


def _tell_write(path: str, method: str, operation: dict[str, Any], draft: dict[str, Any]) -> None:
    parameters = operation.setdefault("parameters", [])
    parameters += [_REASON, _DRY_RUN]
    if method == "post":
        parameters.append(_IDEMPOTENCY_KEY)
    if "{id}" in path or "{name}" in path or path.endswith("/restore/"):
        parameters.append(_IF_MATCH)
    told = operation["responses"].setdefault("200", {"description": "The draft of a dry run."})
    content = told.setdefault("content", {}).setdefault("application/json", {})
    content["schema"] = {"anyOf": [content["schema"], draft]} if "schema" in content else draft
