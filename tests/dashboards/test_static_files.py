"""Style sheets and scripts: ours or vendored with their licence, nothing from elsewhere."""

import os
import re
from pathlib import Path

import pytest
from pytest_django import Settings

from dashboards.static_files import StaticFiles

STATIC = Path(__file__).parents[2] / "dashboards" / "static" / "dashboards"
VENDORED = sorted(path for path in (STATIC / "vendor").iterdir() if path.name != "NOTICE")
SCRIPTS = sorted(STATIC.glob("js/*.js"))
SHEETS = (STATIC / "tokens.css", STATIC / "console.css", STATIC / "live.css")
COLOUR = re.compile(r"#[0-9a-fA-F]{3,8}\b|\b(?:rgb|hsl)a?\(")


@pytest.mark.parametrize("path", VENDORED, ids=lambda path: path.name)
def test_vendored_files_have_their_licence_and_no_source_map(path: Path) -> None:
    assert path.name in (STATIC / "vendor" / "NOTICE").read_text()
    assert "sourceMappingURL" not in path.read_text()


@pytest.mark.parametrize(
    "path",
    [*(path for path in VENDORED if path.suffix == ".css"), *SHEETS],
    ids=lambda path: path.name,
)
def test_style_sheets_fetch_nothing(path: Path) -> None:
    text = path.read_text()
    assert "@import" not in text
    assert all(found.startswith('"data:') for found in re.findall(r"url\(([^)]{0,6})", text))


def test_every_colour_comes_from_the_tokens() -> None:
    for name in ("console.css", "live.css"):
        assert COLOUR.findall((STATIC / name).read_text()) == []


def test_both_themes_define_the_same_colours() -> None:
    light, dark = (
        set(re.findall(r"(--hw-[a-z0-9-]+): (?:#|rgb|0 )", block))
        for block in re.findall(
            r'\[data-bs-theme="(?:light|dark)"\] \{(.*?)\n\}',
            (STATIC / "tokens.css").read_text(),
            re.DOTALL,
        )[:2]
    )
    assert light == dark
    assert len(light) > 40


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_keep_to_the_content_security_policy(path: Path) -> None:
    text = path.read_text()
    assert not re.search(r"\beval\(|new Function|innerHTML|\.style\b|https?://", text)


def test_files_are_compressed_once_and_again_if_that_was_cut_off(
    tmp_path: Path, settings: Settings
) -> None:
    settings.STATIC_ROOT = tmp_path
    (tmp_path / "one.js").write_text("go();\n" * 100)

    def collect() -> Path:
        storage = StaticFiles(location=tmp_path, base_url="/static/")
        found = list(storage.post_process({"one.js": (storage, "one.js")}))
        assert next(name for name, _, _ in found) == "one.js"
        (made,) = tmp_path.glob("*.gz")
        assert re.fullmatch(r"one\.[0-9a-f]{12}\.js\.gz", made.name)
        return made

    made = collect()
    whole = made.read_bytes()
    os.utime(made, (0, 0))
    assert collect().stat().st_mtime == 0
    made.write_bytes(whole[:10])
    assert collect().read_bytes() == whole
