"""How static files are stored: hashed names everywhere, also where our scripts import each other.

Without that a browser could run a new script with an old one it imports from its cache. Scripts of
others are left alone: some name files they don't bring.
"""

from collections.abc import Iterator
from typing import Any, ClassVar

from servestatic.storage import CompressedManifestStaticFilesStorage

_OURS = "dashboards/js/*.js"
_COMPRESSED = ".gz"
_SIZE = 6
"""Where the size stands in what `os.stat` gives and the manifest notes down."""


class StaticFiles(CompressedManifestStaticFilesStorage):
    """The manifest storage, which also puts hashed names into the imports of our modules.

    It compresses what pages ask for, the hashed names, once: they never get another content. That
    is most of the work, and an installation collects its files at each start.
    """

    patterns: ClassVar = (
        *CompressedManifestStaticFilesStorage.patterns,
        (_OURS, CompressedManifestStaticFilesStorage._js_module_import_aggregation_patterns[1]),
    )

    def post_process(self, *args: Any, **options: Any) -> Iterator[Any]:
        """Look at what the last collection noted down at its very end before that is rewritten."""
        self._noted = self.load_manifest_stats()
        yield from super().post_process(*args, **options)

    def compress_files(self, paths: set[str]) -> Iterator[tuple[str, str]]:
        """Compress those files of these that have a hashed name and no whole compressed form."""
        hashed = paths & set(self.hashed_files.values())
        yield from super().compress_files({name for name in hashed if not self._is_done(name)})

    def _is_done(self, name: str) -> bool:
        """Whether the compressed form is what was noted; one that was cut off never was."""
        compressed = name + _COMPRESSED
        if compressed not in self._noted or not self.exists(compressed):
            return False
        return int(self._noted[compressed][_SIZE]) == self.size(compressed)
