"""What strangers find first is true: the wheel, the commands of CONTRIBUTING.md, the forge's workflow and forms."""

import email
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

from npudoctor import __version__

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CLASSIFIED = {text.rpartition(" ")[2] for text in PROJECT["project"]["classifiers"] if ":: Python :: 3." in text}
CI = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
STAGES = set(re.findall(r'^all="(.*)"$', CI, re.MULTILINE)[0].split())
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
COMMANDS = [
    line.strip()
    for name in ("CONTRIBUTING.md", "docs/releasing.md")
    for block in re.findall(r"```sh\n(.*?)```", (ROOT / name).read_text(encoding="utf-8"), re.DOTALL)
    for line in block.splitlines()
]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel of this checkout, built from a copy of what git would carry."""
    source, folder = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in (
        "pyproject.toml",
        "setup.cfg",
        "MANIFEST.in",
        "README.md",
        "LICENSE",
        "SECURITY.md",
        "CONTRIBUTING.md",
    ):
        shutil.copy2(ROOT / name, source)
    for name in ("npudoctor", "checks", "fixes", ".github", "docs"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "wheel", "--no-deps"]
    argv = [*pip, "--no-build-isolation", "-w", str(folder), str(source)]
    done = subprocess.run(argv, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    return zipfile.ZipFile(next(folder.glob("*.whl")))


def test_the_wheel_has_the_package_with_its_types_and_nothing_for_forges(wheel: zipfile.ZipFile) -> None:
    names = {Path(name) for name in wheel.namelist()}
    assert Path("npudoctor/py.typed") in names
    assert {name.parts[0] for name in names} == {"npudoctor", f"npudoctor-{__version__}.dist-info"}
    code = {str(name) for name in names if name.suffix == ".py"}
    lying = {str(path.relative_to(ROOT)) for path in (ROOT / "npudoctor").rglob("*.py")}
    assert lying <= code
    names.remove(Path("npudoctor/deploy/requirements.lock"))  # what cloud-init installs
    others = {name.suffix for name in names if name.parts[0] == "npudoctor"} - {".py"}
    assert not others & {".md", ".svg", ".lock", ".cfg"}


def test_the_metadata_names_licence_and_authors(wheel: zipfile.ZipFile) -> None:
    text = wheel.read(f"npudoctor-{__version__}.dist-info/METADATA").decode()
    told = email.message_from_string(text)
    assert told["Version"] == __version__
    assert told["Author"] == "npudoctor contributors"
    assert (told["License"], told["License-File"]) == ("Apache-2.0", "LICENSE")
    assert "Typing :: Typed" in told.get_all("Classifier", [])
    assert set(told.get_all("Provides-Extra", [])) == {"daemon", "fleet", "web", "npu", "test"}, "tools are groups"


def test_the_newest_section_of_the_changelog_is_this_version() -> None:
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert re.fullmatch(rf"{re.escape(__version__)}, (unreleased|\d{{4}}-\d\d-\d\d)", headings[0])
    assert all(re.fullmatch(r"\d+\.\d+\.\d+, \d{4}-\d\d-\d\d", heading) for heading in headings[1:])


def test_every_supported_python_is_tried_by_the_workflow() -> None:
    [least] = Requirement(f"python{PROJECT['project']['requires-python']}").specifier
    assert f"3.{min(int(one.partition('.')[2]) for one in CLASSIFIED)}" == least.version
    assert set(workflow()["jobs"]["suite"]["strategy"]["matrix"]["python"]) == CLASSIFIED


def workflow() -> dict[str, Any]:
    read = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    assert isinstance(read, dict)
    return read


def test_the_workflow_runs_every_stage_of_the_ci() -> None:
    called: set[str] = set()
    for job in workflow()["jobs"].values():
        for step in job["steps"]:
            words = step.get("run", "").removeprefix("sudo ").split(maxsplit=1)
            if not words:
                assert re.fullmatch(r"actions/[\w-]+@v\d+", step["uses"]), "only actions of the forge itself"
                continue
            assert words[0] == ".ci/run", "whatever CI does, a person can do with .ci/run"
            one = "${{ matrix.stage }}"
            called |= set(job["strategy"]["matrix"]["stage"] if words[1] == one else words[1].split())
    assert called == STAGES - {"pythons"}, "`pythons` is the matrix of the job `suite`"
    assert set(re.findall(r"^#   (\w+) ", CI, re.MULTILINE)) == STAGES


def test_an_unknown_stage_is_refused_before_anything_runs() -> None:
    done = subprocess.run(["bash", str(ROOT / ".ci/run"), "lnt"], capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no stage is called lnt" in done.stderr


def scripts() -> set[str]:
    """The programs in .venv/bin after CONTRIBUTING's set-up, as far as they are called like what installs them."""
    groups = [one for wanted in PROJECT["dependency-groups"].values() for one in wanted if isinstance(one, str)]
    extra = PROJECT["project"]["optional-dependencies"]["test"]
    return {Requirement(one).name for one in (*groups, *extra)} | {"pip", "python"}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_contributor_s_pages_is_real(command: str) -> None:
    programs = re.findall(r"\.venv/bin/([\w-]+)", command)
    assert set(programs) <= scripts()
    for stages in re.findall(r"\.ci/run((?: \w+)*)", command):
        assert set(stages.split()) <= STAGES
    for group in re.findall(r"--group (\w+)", command):
        assert group in PROJECT["dependency-groups"]
        assert "install -q -c constraints.txt pip" in command, "an older pip has no --group"
    for extra in re.findall(r"\[(\w+(?:,\w+)*)\]", command):
        assert set(extra.split(",")) <= set(PROJECT["project"]["optional-dependencies"])
    for path in re.findall(r"(?<![\w/.])tests/\w+", command):
        assert (ROOT / path).is_dir()


def test_the_fast_subset_leaves_out_only_what_the_default_suite_runs() -> None:
    [fast] = [command for command in COMMANDS if "pytest -n" in command]
    left_out = set(re.findall(r"not (\w+)", fast))
    options = PROJECT["tool"]["pytest"]["ini_options"]
    assert left_out == {"slow", "thorough"}
    assert left_out <= {text.partition(":")[0] for text in options["markers"]}
    assert re.findall(r"-m '(.*)'", options["addopts"]) == ["not slow"]
    mark = re.compile(r"^@pytest\.mark\.thorough$", re.MULTILINE)
    marked = [path for path in (ROOT / "tests").rglob("test_*.py") if mark.search(path.read_text(encoding="utf-8"))]
    folders = {path.relative_to(ROOT).parts[1] for path in marked}
    runs = [fast, *re.findall(r"not thorough[^&]*", CI)]
    assert folders <= set(re.findall(r"tests/(\w+)", " ".join(runs))), "elsewhere the mark would mean nothing"
    assert {"core", "checks"} <= folders


def test_the_hooks_before_a_commit_are_the_linters_of_the_ci() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"][0]["hooks"]
    entries = {" ".join(hook["entry"].split()[:2]).removeprefix(".venv/bin/") for hook in hooks}
    lint = CI[CI.index("\nlint() {") : CI.index("\n}", CI.index("\nlint() {"))]
    called = {" ".join(line.split()[:2]) for line in re.findall(r"\.venv/bin/((?:ruff|mypy|pyright).*)", lint)}
    assert entries == {line.removesuffix(" .") for line in called}


def test_every_issue_form_can_be_filled_in() -> None:
    forms = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
    assert forms
    for path in forms:
        form = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert {"name", "description", "body"} <= set(form)
        ids = [item["id"] for item in form["body"] if item["type"] != "markdown"]
        assert len(ids) == len(set(ids))
        for item in form["body"]:
            assert item["type"] in ("input", "markdown", "textarea")
            assert item["attributes"].get("value" if item["type"] == "markdown" else "label")


def test_what_needs_an_owner_is_there() -> None:
    for line in (ROOT / ".github" / "CODEOWNERS").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith(("#", "* ")):
            assert (ROOT / line.split()[0].strip("/")).exists(), line


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"])
def test_links_of_these_pages_lead_somewhere(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)", text):
        assert (ROOT / target).exists(), target


def test_no_file_for_a_forge_names_an_index_or_a_host() -> None:
    files = [path for path in (ROOT / ".github").rglob("*") if path.is_file()]
    for path in [*files, ROOT / ".pre-commit-config.yaml", ROOT / ".ci" / "run", ROOT / "CONTRIBUTING.md"]:
        assert not re.search(r"index-url|find-links|https?://|PIP_", path.read_text(encoding="utf-8")), path


def test_what_pyright_judges_is_there() -> None:
    for path in PROJECT["tool"]["pyright"]["include"]:
        assert (ROOT / path).exists(), path
