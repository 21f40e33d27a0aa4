"""What the OpenAPI document says of every operation alike: errors, reasons, versions."""

from typing import Any

from controlplane.api.views.tenants import REASON_HEADER

_WRITES = ("post", "patch", "delete")

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


def tell_conventions(
    result: dict[str, Any], generator: Any, request: Any, public: bool
) -> dict[str, Any]:
    """Add the error shape to every operation, and the two headers to those that write."""
    result["components"]["schemas"]["Error"] = _ERROR
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    for path, operations in result["paths"].items():
        for method, operation in operations.items():
            operation["responses"]["default"] = {"description": "A refusal.", "content": content}
            if method in _WRITES:
                operation.setdefault("parameters", []).append(_REASON)
            if method in _WRITES and "{id}" in path:
                operation["parameters"].append(_IF_MATCH)
    return result
