"""The API's own description: OpenAPI 3.1, and Swagger UI without a byte from elsewhere."""

from functools import cache
from typing import Any

from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView


@cache
def _document() -> Any:
    return SchemaGenerator().get_schema(public=True)


class SharedDocument(SchemaGenerator):
    """Makes the document once in a process: it is the same for everybody, and takes a while."""

    def get_schema(self, request: Any = None, public: bool = False) -> Any:
        return super().get_schema(request, public) if self.api_version else _document()


class SchemaView(SpectacularAPIView):
    """The document, for anybody."""

    generator_class = SharedDocument


class DocsView(SpectacularSwaggerSplitView):
    """Swagger UI under the console's content security policy: no script or style in the page."""

    template_name = "api/docs.html"
    url_name = "api-schema"
