"""The README is true: its transcript, its commands, its links; and the CI runs the very test command."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from npudoctor.cli import COMMANDS, main

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)
SHELL = [text.strip() for language, text in BLOCKS if language == "sh"]


def without_time(text: str) -> str:
    return re.sub(r"in \d+\.\d s\.", "in N s.", text)


@pytest.mark.parametrize("block", [text for language, text in BLOCKS if language == "console"])
def test_a_transcript_is_what_the_command_prints(block: str) -> None:
    first, _, expected = block.partition("\n")
    command = first.removeprefix("$ npudoctor ").split()
    environment = {**os.environ, "COLUMNS": "96", "PYTHONUTF8": "1"}
    argv = [sys.executable, "-m", "npudoctor", *command]
    done = subprocess.run(argv, capture_output=True, encoding="utf-8", env=environment, check=False)
    assert without_time(done.stdout).strip() == without_time(expected).strip()


def test_there_are_two_set_up_commands_and_one_for_an_older_python() -> None:
    assert [command.rpartition("/bin/")[2] for command in SHELL] == [
        "npudoctor check",
        "pytest -n 2 --dist loadfile",
        "npudoctor check",
    ]
    assert all("\n" not in command for command in SHELL)
    assert all("sudo" not in command for command in SHELL)


def test_the_ci_runs_the_readme_s_own_test_command() -> None:
    assert SHELL[1] in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()


def test_every_command_is_named_and_every_named_one_is_there() -> None:
    named = set(re.findall(r"`npudoctor (\w+)", README))
    assert set(COMMANDS) <= named | {"schema"}
    assert named <= set(COMMANDS)


@pytest.mark.parametrize(
    "path", [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"], ids=lambda path: path.name
)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", path.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (path.parent / target).exists(), target


def test_the_list_of_checks_is_the_catalogue(capsys: pytest.CaptureFixture[str]) -> None:
    main(["list"])
    listed = {line.split()[0] for line in capsys.readouterr().out.splitlines()}
    documented = set(
        re.findall(
            r"^\| \[`([a-z]+\.[a-z-]+)`\]", (ROOT / "docs" / "checks.md").read_text(encoding="utf-8"), re.MULTILINE
        )
    )
    assert documented == listed


PICTURES = sorted((ROOT / "docs" / "pictures").glob("*.svg"))


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.name)
def test_a_picture_is_small_shown_and_loads_nothing_from_elsewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text) < 400_000
    assert set(re.findall(r"https?://[^\s\"')<]+", text)) <= {"http://www.w3.org/2000/svg"}
    assert "<script" not in text
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    assert any(f"pictures/{path.name}" in page.read_text(encoding="utf-8") for page in pages)


def test_the_animation_shows_the_way_to_a_ready_node() -> None:
    text = (ROOT / "docs" / "pictures" / "way.svg").read_text(encoding="utf-8").replace("&#160;", " ")
    assert text.count('class="f"') >= 5 and "prefers-reduced-motion" in text
    assert "Node ready: no problems" in text
