"""Bodies: JSON, of a bounded size, holding nothing the database couldn't keep."""

import codecs
import math
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from rest_framework import status
from rest_framework.exceptions import APIException, ParseError
from rest_framework.parsers import BaseParser
from rest_framework.utils import json

_MAX_DEPTH = 32


class BodyTooLarge(APIException):
    status_code = status.HTTP_413_REQUEST_ENTITY_TOO_LARGE
    default_code = "too_large"

    def __init__(self, limit: int) -> None:
        super().__init__(f"The body is larger than {limit:,} bytes.")


class StrictJSONParser(BaseParser):
    """One JSON document in UTF-8 without NUL characters or lone surrogates."""

    media_type = "application/json"

    def parse(
        self,
        stream: Any,
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        body = stream.read(limit + 1)
        if len(body) > limit:
            raise BodyTooLarge(limit)
        try:
            document = json.loads(codecs.decode(body, "utf-8"), strict=True)
        except (ValueError, RecursionError) as error:
            raise ParseError("The body is not a JSON document in UTF-8.") from error
        if not is_storable(document):
            raise ParseError("The body holds text that can't be stored, or is nested too deep.")
        return document


def is_storable(value: object, depth: int = 0) -> bool:
    """Tell whether PostgreSQL can keep every text and number in a JSON value."""
    if depth > _MAX_DEPTH:
        return False
    if isinstance(value, str):
        return "\0" not in value and not any("\ud800" <= char <= "\udfff" for char in value)
    if isinstance(value, Mapping):
        return all(
            is_storable(name, depth + 1) and is_storable(item, depth + 1)
            for name, item in value.items()
        )
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, list):
        return all(is_storable(item, depth + 1) for item in value)
    return True
