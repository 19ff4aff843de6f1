"""The layers of the house: who may import whom, what each entry loads, and that the packaging tells the truth."""

import ast
import graphlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
SOURCES = [path for folder in ("npudoctor", "checks", "fixes") for path in sorted((ROOT / folder).rglob("*.py"))]

LAYERS = {
    "npudoctor": set(),
    "npudoctor.change_control": set(),
    "npudoctor.inventory_models": set(),
    "npudoctor.findings": {"inventory_models"},
    "npudoctor.host": {"findings", "host"},
    "npudoctor.steps": {"findings", "host", "messages", "steps"},
    "npudoctor.knowledge": {"host", "knowledge"},
    "npudoctor.messages": {"findings"},
    "npudoctor.sdk": {"change_control", "findings", "host", "messages", "sdk", "steps"},
    "npudoctor.facts": {"sdk", "facts", "knowledge"},
    "npudoctor.checks": {"sdk", "facts", "knowledge", "checks"},
    "npudoctor.fixes": {"sdk", "facts", "knowledge", "fixes"},
    "npudoctor.plugins": {"findings", "host", "steps", "sdk", "facts", "knowledge"},
    "npudoctor.selection": {"findings", "sdk", "plugins"},
    "npudoctor.schedule": set(),
    "npudoctor.inventory": {"findings", "facts"},
    "npudoctor.engine": {"inventory", "schedule", "findings", "host", "sdk", "facts", "plugins", "selection"},
    "npudoctor.fixer": {
        *("findings", "host", "steps", "sdk", "facts", "knowledge", "plugins", "selection", "engine", "fixer"),
        "messages",
    },
    "npudoctor.daemon_config": set(),
    "npudoctor.config": {"change_control", "findings", "host", "sdk", "daemon_config"},
    "npudoctor.explain": {"messages", "sdk", "knowledge", "plugins", "explain"},
    "npudoctor.report": {"findings", "report", "smoke", "explain"},
    "npudoctor.web": {"host", "web"},
    "npudoctor.sim": {"findings", "host", "sdk", "facts", "knowledge", "sim"},
    "npudoctor.chip_problems": {"findings"},
    "npudoctor.injection": set(),
    "npudoctor.smoke": {
        *("findings", "host", "sdk", "facts", "knowledge", "explain", "plugins", "selection", "engine", "smoke"),
        "chip_problems",
    },
    "npudoctor.compare": {
        *("findings", "messages", "host", "sdk", "facts", "knowledge", "plugins", "selection", "engine", "compare"),
    },
    "npudoctor.fleet": {
        *("findings", "messages", "host", "sdk", "facts", "knowledge", "plugins", "selection", "engine", "compare"),
        *("report", "sim", "privacy", "fleet"),
    },
    "npudoctor.privacy": {"findings", "host", "sdk", "facts", "knowledge", "plugins", "privacy"},
    "npudoctor.packages": {"host", "facts", "knowledge", "packages"},
    "npudoctor.installing": {"host", "facts", "knowledge", "steps", "fixer", "installing"},
    "npudoctor.in_target": set(),
}
"""What each part may import of npudoctor; parts that are not named (cli, tui, daemon, testing) may import all."""

ONLY_IN = {
    "textual": ("npudoctor/tui/",),
    "aiohttp": ("npudoctor/web/",),
    "starlette": ("npudoctor/daemon/",),
    "uvicorn": ("npudoctor/daemon/",),
    "ClusterShell": ("npudoctor/fleet/engines/clustershell.py", "npudoctor/fleet/targets.py"),
    "torch": ("npudoctor/smoke/worker.py", "npudoctor/in_target/"),
    "torch_npu": ("npudoctor/smoke/worker.py", "npudoctor/in_target/"),
    "subprocess": (
        *(
            "npudoctor/host/live/local.py",
            "npudoctor/host/live/processes.py",
            "npudoctor/host/live/apart.py",
            "npudoctor/smoke/",
            "npudoctor/in_target/",
        ),
        "npudoctor/fleet/engines/processes.py",  # srun, and simulated nodes
        "npudoctor/daemon/child.py",  # npudoctor itself, in a process that can be killed
    ),
}


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = ("npudoctor", *parts) if parts[0] in ("checks", "fixes") else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """Every absolute module name that a file imports, with its line; `from a import b` counts as a.b too."""
    package = module_of(path) if path.name == "__init__.py" else module_of(path).rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *([base] if base else [])])
            yield from ((f"{base}.{alias.name}", node.lineno) for alias in node.names)


def part_of(module: str) -> str:
    pieces = module.split(".")
    return ".".join(pieces[:2])


EVERYWHERE = {
    "clock",
    "control_characters",
    "data",
    "injection",
    "models",
    "reasons",
    "records",
    "value_rules",
}
"""Small modules that import nothing of ours but each other."""

MASKING = ("npudoctor.privacy.command_lines", "npudoctor.privacy.credentials")
"""What hides secrets in texts imports nothing else of ours, and is used wherever a text is read."""


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_imports_only_what_its_layer_may(path: Path) -> None:
    module = module_of(path)
    allowed = set() if module in MASKING else LAYERS.get(part_of(module))
    allowed = allowed if allowed is None else allowed | EVERYWHERE
    parts = {child.stem for child in (ROOT / "npudoctor").iterdir()} | {"checks", "fixes"}
    for name, line in imports(path):
        pieces = name.split(".")
        if pieces[0] in ONLY_IN:
            where = path.relative_to(ROOT).as_posix()
            assert where.startswith(ONLY_IN[pieces[0]]), f"{where}:{line} imports {pieces[0]}"
        if pieces[0] != "npudoctor" or len(pieces) < 2 or pieces[1] not in parts or allowed is None:
            continue
        may = pieces[1] in allowed or name.startswith(MASKING)
        assert may, f"{module} imports {name} (line {line})"


def test_every_room_has_its_layer() -> None:
    """The last ones may import all: they are what users meet, and what tests are made of."""
    free = {"__main__", "cli", "daemon", "testing", "tui"}
    rooms = {path.stem for path in (ROOT / "npudoctor").iterdir() if path.name != "__pycache__"} - {"py", "deploy"}
    named = {name.partition(".")[2] for name in LAYERS} - {"", "checks", "fixes"}
    assert {room for room in rooms if not room.startswith("__init__")} == named | free | EVERYWHERE


def test_no_module_imports_itself_by_way_of_others() -> None:
    """Imports inside functions count; those for type checkers do not."""
    modules = {module_of(path) for path in SOURCES}
    graph = {module_of(path): needed_by(path, modules) for path in SOURCES}
    graphlib.TopologicalSorter({name: found & set(graph) for name, found in graph.items()}).prepare()


def needed_by(path: Path, modules: set[str]) -> set[str]:
    aside = for_type_checkers(path)
    found = {name if name in modules else name.rpartition(".")[0] for name, line in imports(path) if line not in aside}
    # `from npudoctor.cli import node` is about cli/node.py and not about the package
    packages = {name for name in found if any(other.startswith(f"{name}.") for other in found)}
    return found - packages - {module_of(path)}


def for_type_checkers(path: Path) -> set[int]:
    source = path.read_text(encoding="utf-8")
    return {
        line
        for node in (ast.walk(ast.parse(source)) if "TYPE_CHECKING" in source else ())
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for one in node.body
        for line in range(one.lineno, (one.end_lineno or one.lineno) + 1)
    }


def test_nobody_imports_the_checks_and_the_fixes_by_name() -> None:
    for path in SOURCES:
        if path.relative_to(ROOT).parts[0] in ("checks", "fixes"):
            continue
        for name, line in imports(path):
            assert not name.startswith(("npudoctor.checks", "npudoctor.fixes", "checks", "fixes")), f"{path}:{line}"


def loaded_by(code: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after running this code."""
    script = f"import sys\n{code}\nimport json\nprint('\\n' + json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", script] if sys.version_info >= (3, 11) else [sys.executable, "-c", script],
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_the_version_loads_next_to_nothing() -> None:
    loaded = loaded_by("from npudoctor.cli import main\nmain(['--version'])")
    assert not loaded & {"pydantic", "psutil", "rich", "textual", "npudoctor.engine", "npudoctor.findings"}


def test_a_check_as_json_loads_neither_the_terminal_nor_the_daemon_nor_torch() -> None:
    code = "from npudoctor.cli import main\nmain(['check', '--json', '--profile', 'quick', '--simulate', 'seed-910b1'])"
    loaded = loaded_by(code)
    assert "npudoctor.engine" in loaded
    assert not any(name.startswith("npudoctor.fleet") for name in loaded)
    assert not loaded & {"pydantic", "textual", "rich", "starlette", "uvicorn", "torch", "torch_npu", "asyncio"}


def test_the_package_list_is_what_lies_in_the_folders() -> None:
    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["packages"])
    lying = {module_of(path) for path in SOURCES if path.name == "__init__.py"}
    assert listed == lying


def test_every_dependency_says_why_it_was_chosen() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    block = text[text.index("dependencies = [") : text.index("[project.scripts]")]
    for line in block.splitlines():
        if re.match(r'\s+"', line):
            assert "#" in line, line


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_stays_short(path: Path) -> None:
    allowed = {
        "npudoctor/host/live/local.py": 502,
        "npudoctor/engine.py": 440,
        "npudoctor/smoke/worker.py": 575,
    }
    where = path.relative_to(ROOT).as_posix()
    usual = 800 if where.startswith("checks/messages/") else 400  # a table of texts is read entry by entry
    assert len(path.read_text(encoding="utf-8").splitlines()) <= allowed.get(where, usual), f"{where} wants a look"


def test_what_is_asked_of_a_host_is_named_in_its_protocol() -> None:
    looked_up = re.compile(r"(?:getattr|hasattr)\((?:self\.)?_?host\b")
    found = [path for path in SOURCES if looked_up.search(path.read_text(encoding="utf-8"))]
    assert found == []
