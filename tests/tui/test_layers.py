"""Who may import whom around the terminal interface, and that nobody else loads it."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FORBIDDEN = (
    "facts",
    "engine",
    "fixer",
    "checks",
    "fixes",
    "plugins",
    "host",
    "smoke",
    "cli",
    "daemon",
    "sdk",
    "report",
    "web",
)


def imports(path: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


MODEL = ROOT / "npudoctor" / "tui" / "model"
DRAWN = [path for path in sorted((ROOT / "npudoctor" / "tui").rglob("*.py")) if MODEL not in path.parents]


@pytest.mark.parametrize("path", DRAWN, ids=lambda path: path.name)
def test_no_screen_or_widget_knows_facts_checks_fixes_or_processes(path: Path) -> None:
    for name in imports(path):
        assert name.split(".")[0] != "subprocess", name
        pieces = name.split(".")
        assert pieces[0] != "npudoctor" or pieces[1] not in FORBIDDEN, name


@pytest.mark.parametrize("path", sorted(MODEL.rglob("*.py")), ids=lambda path: path.name)
def test_no_view_knows_how_it_is_drawn(path: Path) -> None:
    for name in imports(path):
        assert name.split(".")[0] not in ("textual", "rich", "subprocess"), name
        ours = name.startswith("npudoctor.tui.model")
        assert ours or not name.startswith(("npudoctor.tui", "npudoctor.cli")), name


def loaded(code: str) -> set[str]:
    script = f"import sys\n{code}\nimport json\nprint('\\n' + json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, encoding="utf-8", check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "words", [["check", "--simulate", "healthy-a3"], ["list"], ["--help"], ["facts", "--simulate", "healthy-a3"], []]
)
def test_the_command_line_loads_no_textual(words: list[str]) -> None:
    simulated = "import os; os.environ['NPUDOCTOR_CONFIG'] = ''\n"
    modules = loaded(f"{simulated}from npudoctor.cli import main\ntry:\n  main({words!r})\nexcept SystemExit: pass")
    assert not {name for name in modules if name.split(".")[0] in ("textual", "textual_plotext", "plotext")}


def test_the_first_frame_waits_for_neither_the_checks_nor_their_libraries() -> None:
    modules = loaded("import npudoctor.cli.tui, npudoctor.tui.app, npudoctor.tui.screens.overview")
    assert not modules & {
        "pydantic",
        "psutil",
        "npudoctor.engine",
        "npudoctor.findings",
        "npudoctor.facts.npu_smi.probes",
    }
