"""Documents point at what is there."""

import re
import subprocess

from tests.architecture.sources import ROOT

LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
DOCUMENT = re.compile(r"\bdocs/[\w./-]+\.md\b")


def texts() -> dict[str, str]:
    """Every tracked text by its path, vendored files left out."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    kept = [
        name
        for name in listed
        if name.endswith((".md", ".py", ".toml", ".txt", ".html")) or name == "Makefile"
    ]
    return {name: (ROOT / name).read_text() for name in kept if (ROOT / name).exists()}


def test_every_link_of_a_document_leads_to_a_file() -> None:
    dead = [
        f"{name}: {target}"
        for name, text in texts().items()
        if name.endswith(".md")
        for target in LINK.findall(text)
        if "://" not in target and not (ROOT / name).parent.joinpath(target).exists()
    ]
    assert dead == []


def test_every_document_that_is_named_exists() -> None:
    dead = [
        f"{name}: {document}"
        for name, text in texts().items()
        for document in DOCUMENT.findall(text)
        if not (ROOT / document).exists()
    ]
    assert dead == []
