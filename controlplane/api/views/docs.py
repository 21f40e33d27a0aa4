"""The API's own description: OpenAPI 3.1, and Swagger UI without a byte from elsewhere."""

from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

SchemaView = SpectacularAPIView


class DocsView(SpectacularSwaggerSplitView):
    """Swagger UI under the console's content security policy: no script or style in the page."""

    template_name = "api/docs.html"
    url_name = "api-schema"
