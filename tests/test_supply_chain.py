"""The files of versions agree with pyproject.toml and with each other, and who installs something uses them."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from npudoctor import __version__
from tests.supply_chain import verdict

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
GROUPS = {
    name: [one for one in wanted if isinstance(one, str)] for name, wanted in PROJECT["dependency-groups"].items()
}
LOCKED_EXTRAS = ("daemon", "fleet", "web")
PYTHONS = ("3.10", "3.11", "3.12", "3.13")


def pinned(name: str) -> dict[Requirement, list[str]]:
    """The entries of a file, with their hashes."""
    text = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {Requirement(line.partition(" --hash")[0]): re.findall(r"--hash=(\S+)", line) for line in lines}


CONSTRAINTS, LOCK = pinned("constraints.txt"), pinned("requirements.lock")


def applies(one: Requirement, python: str) -> bool:
    here = {"sys_platform": "linux", "platform_python_implementation": "CPython", "extra": ""}
    return one.marker is None or one.marker.evaluate(
        here | {"python_version": python, "python_full_version": f"{python}.9"}
    )


def version(entries: dict[Requirement, list[str]], name: str, python: str) -> str | None:
    """The one version of a package that is installed on this Python."""
    fits = [one for one in entries if canonicalize_name(one.name) == canonicalize_name(name) and applies(one, python)]
    assert len(fits) < 2, f"{name}: two versions for Python {python}"
    return str(fits[0].specifier).removeprefix("==") if fits else None


def missing(entries: dict[Requirement, list[str]], wanted: list[str], python: str) -> list[str]:
    """The requirements that no entry meets."""
    needed = [one for one in map(Requirement, wanted) if one.name != "npudoctor" and applies(one, python)]
    return [
        f"{one} on Python {python}: {found}"
        for one in needed
        if (found := version(entries, one.name, python)) is None or found not in one.specifier
    ]


@pytest.mark.parametrize("python", PYTHONS)
def test_every_requirement_has_one_version_within_its_bounds(python: str) -> None:
    runtime = PROJECT["project"]["dependencies"]
    extras = [one for extra, wanted in EXTRAS.items() if extra != "npu" for one in wanted]
    groups = [one for wanted in GROUPS.values() for one in wanted]
    assert not missing(CONSTRAINTS, [*runtime, *extras, *groups], python), "run .ci/lock"
    locked = [one for extra in LOCKED_EXTRAS for one in EXTRAS[extra]]
    assert not missing(LOCK, [*runtime, *locked, *PROJECT["build-system"]["requires"]], python), "run .ci/lock"


def test_cloud_init_installs_this_version_with_the_locked_packages() -> None:
    lock = ROOT / "npudoctor" / "deploy" / "requirements.lock"
    assert lock.read_text(encoding="utf-8") == (ROOT / "requirements.lock").read_text(encoding="utf-8")
    said = yaml.safe_load((lock.parent / "cloud-init" / "user-data.yaml").read_text(encoding="utf-8"))
    installs = [" ".join(command) for command in said["runcmd"] if "install -q" in " ".join(command)]
    assert installs == [
        f"/opt/npudoctor/bin/pip install -q --no-deps npudoctor=={__version__}",
        "sh -c /opt/npudoctor/bin/pip install -q --require-hashes"
        " -r /opt/npudoctor/lib/python3*/site-packages/npudoctor/deploy/requirements.lock",
    ]


@pytest.mark.parametrize("python", PYTHONS)
def test_both_files_name_the_same_versions(python: str) -> None:
    for one in LOCK:
        assert version(LOCK, one.name, python) in (version(CONSTRAINTS, one.name, python), None), one.name


def test_every_entry_is_one_version_and_every_locked_one_has_hashes() -> None:
    for entries in (CONSTRAINTS, LOCK):
        assert all(re.fullmatch(r"==[\w.!+]+", str(one.specifier)) and not one.url for one in entries)
    assert not any(CONSTRAINTS.values())
    assert all(
        hashes and all(re.fullmatch(r"sha256:[0-9a-f]{64}", each) for each in hashes) for hashes in LOCK.values()
    )


def test_no_file_names_an_index_or_a_path() -> None:
    for name in ("constraints.txt", "requirements.lock"):
        options = [
            line
            for line in (ROOT / name).read_text(encoding="utf-8").splitlines()
            if re.match(r"\s*-(?!-hash=)|.*[:@]//", line)
        ]
        assert not options


def test_what_nobody_needs_at_run_time_is_not_locked() -> None:
    tools = {
        canonicalize_name(Requirement(one).name) for wanted in (EXTRAS["test"], *GROUPS.values()) for one in wanted
    }
    assert tools & {canonicalize_name(one.name) for one in LOCK} == {"pyyaml", "setuptools"}


def test_the_image_and_the_ci_install_what_is_locked() -> None:
    for name in ("Dockerfile", ".ci/run"):
        text = re.sub(r"\\\n\s*", "", (ROOT / name).read_text(encoding="utf-8"))
        steps = [line.split("pip", 1)[1] for line in re.split(r"&&|\n", text) if re.search(r"pip\"? install", line)]
        assert any("--require-hashes -r requirements.lock" in step for step in steps), name
        unsafe = [one for one in steps if not re.search(r"--require-hashes|--no-deps|-c constraints.txt", one)]
        assert not unsafe, f"{name} installs what nothing pins"


def answer(**vulns: list[dict[str, Any]] | None) -> dict[str, Any]:
    """What pip-audit prints: a package without data has a reason instead of vulnerabilities."""
    return {
        "dependencies": [
            {"name": name, "skip_reason": "not found"} if bad is None else {"name": name, "version": "1", "vulns": bad}
            for name, bad in vulns.items()
        ]
    }


def test_an_audit_without_data_says_so_and_does_not_fail() -> None:
    assert verdict(None) == (0, "NOT AUDITED: advisory data could not be reached")
    assert verdict(answer(rich=None, textual=None)) == verdict(None)
    assert verdict({}) == verdict(None)


def test_an_advisory_fails_the_audit() -> None:
    status, said = verdict(answer(rich=[], textual=[{"id": "PYSEC-2030-1"}], psutil=None))
    assert status == 1
    assert "textual 1: PYSEC-2030-1" in said


def test_an_audit_with_gaps_names_them() -> None:
    assert verdict(answer(rich=[])) == (0, "audit passed: 1 packages without a known vulnerability")
    status, said = verdict(answer(rich=[], psutil=None))
    assert (status, said.partition("; ")[2]) == (0, "NOT AUDITED, no data: psutil")
