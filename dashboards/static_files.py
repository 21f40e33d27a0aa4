"""How static files are stored: hashed names everywhere, also where our scripts import each other.

Without that a browser could run a new script with an old one it imports from its cache. Scripts of
others are left alone: some name files they don't bring.
"""

from typing import ClassVar

from servestatic.storage import CompressedManifestStaticFilesStorage

_OURS = "dashboards/js/*.js"


class StaticFiles(CompressedManifestStaticFilesStorage):
    """The manifest storage, which also puts hashed names into the imports of our modules."""

    patterns: ClassVar = (
        *CompressedManifestStaticFilesStorage.patterns,
        (_OURS, CompressedManifestStaticFilesStorage._js_module_import_aggregation_patterns[1]),
    )
