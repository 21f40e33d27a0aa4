"""How to reach what runs: VAR/demo.env, kept over starts, and the last lines on the terminal."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from controlplane.local.settings import LocalSettings
from controlplane.local.terminal import Terminal

CONSOLE_URL = "CONSOLE_URL"
GATEWAY_URL = "GATEWAY_URL"
API_KEY = "API_KEY"
API_TOKEN = "API_TOKEN"
ADMIN_USER = "ADMIN_USER"
ADMIN_PASSWORD = "ADMIN_PASSWORD"
# The route that the demo is seeded with.
DEMO_MODEL = "chat"
_NO_MODEL = (
    "No model is served: start with HEADWORKS_DEMO_ENGINE=vllm, or HEADWORKS_DEMO_UPSTREAM_URL "
    "set to an OpenAI-compatible server"
)


def read_pairs(path: Path) -> Mapping[str, str]:
    """The KEY=VALUE lines of a file; empty if there is none."""
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        return {}
    pairs = (line.partition("=") for line in lines if not line.startswith("#"))
    return {name.strip(): value for name, separator, value in pairs if separator}


def write_pairs(path: Path, pairs: Mapping[str, str]) -> None:
    """Write KEY=VALUE lines whole, readable by us alone."""
    partial = path.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.writelines(f"{name}={value}\n" for name, value in pairs.items())
    partial.replace(path)


def update_demo_file(demo: Path, seeded: Path, settings: LocalSettings) -> Mapping[str, str]:
    """Take over newly seeded secrets and today's addresses; return all pairs."""
    addresses = {CONSOLE_URL: settings.console_url, GATEWAY_URL: settings.gateway_url}
    pairs = {**read_pairs(demo), **read_pairs(seeded), **addresses}
    write_pairs(demo, pairs)
    seeded.unlink(missing_ok=True)
    return pairs


def show_access(
    terminal: Terminal, pairs: Mapping[str, str], demo: Path, *, has_model: bool
) -> None:
    """Print addresses, credentials and, if a model is served, a line that works as pasted."""
    lost = f"(not in {demo}; make a new one in the console)"
    user, password = pairs.get(ADMIN_USER, lost), pairs.get(ADMIN_PASSWORD, lost)
    key = pairs.get(API_KEY, lost)
    question = {"role": "user", "content": "What is a waterworks?"}
    body = {"model": DEMO_MODEL, "max_tokens": 60, "messages": [question]}
    terminal.show("")
    terminal.show(f"Console   {pairs[CONSOLE_URL]}/   user {user}   password {password}")
    terminal.show(f"Gateway   {pairs[GATEWAY_URL]}/v1   key {key}")
    terminal.show("")
    command = (
        f"curl {pairs[GATEWAY_URL]}/v1/chat/completions -H 'Authorization: Bearer {key}' "
        f"-H 'Content-Type: application/json' -d '{json.dumps(body)}'"
    )
    terminal.show(command if has_model else _NO_MODEL)
    terminal.show("")
    terminal.show(f"The same is in {demo}. Ctrl-C stops everything")
