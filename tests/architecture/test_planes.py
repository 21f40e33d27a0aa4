"""Who may know and write what."""

import ast
import subprocess
import sys

from tests.architecture.sources import ROOT, Source, sources

FRAMEWORKS = ("django", "rest_framework", "celery", "channels", "plotly", "controlplane")
WRITES = {"save", "bulk_create", "bulk_update", "get_or_create", "update_or_create"}
MANAGER_WRITES = {"create", "update", "delete", "acreate", "aupdate", "adelete"}


def test_importing_all_of_the_data_plane_loads_no_framework() -> None:
    modules = [
        source.name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for source in sources("inference")
        if source.path.name != "__main__.py"
    ]
    program = (
        f"import importlib, sys\nfor name in {modules!r}: importlib.import_module(name)\n"
        f"print([name for name in {FRAMEWORKS!r} if name in sys.modules])"
    )
    seen = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert seen.stdout.strip() == "[]"


def test_a_gateway_loads_nothing_of_what_the_helper_stands_on() -> None:
    heavy = ("numpy", "onnxruntime", "tokenizers", "usearch")
    program = (
        "import sys, inference.__main__, inference.gateway.child\n"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    seen = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert seen.stdout.strip() == "[]"


def is_write(call: ast.Call) -> bool:
    """Say whether a call writes through the ORM: by its own name, or on a manager's chain."""
    if not isinstance(call.func, ast.Attribute):
        return False
    if call.func.attr in WRITES:
        return True
    chain = (node for node in ast.walk(call.func.value) if isinstance(node, ast.Attribute))
    return call.func.attr in MANAGER_WRITES and any(node.attr == "objects" for node in chain)


def orm_writes(source: Source) -> list[str]:
    calls = (node for node in ast.walk(source.tree) if isinstance(node, ast.Call))
    return [f"{source.name}:{call.lineno}" for call in calls if is_write(call)]


def test_rows_are_written_by_services_alone() -> None:
    outside = [
        place
        for source in sources("controlplane", "dashboards")
        if "services" not in source.path.parts
        for place in orm_writes(source)
    ]
    assert outside == []


def test_nothing_is_wired_by_signals() -> None:
    imports = (
        (source.name, node.module or "")
        for source in sources("controlplane", "dashboards")
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ImportFrom)
    )
    assert [place for place, module in imports if module.endswith("signals")] == []
