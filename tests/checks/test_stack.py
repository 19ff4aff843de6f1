"""Frameworks: their published sets, the smallest change, their chips, their operators, and where a job writes."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from npudoctor import knowledge, plugins, sim
from npudoctor.cli import main
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.facts.node.working_folder import working_folder
from npudoctor.facts.python.operator_builds import family_of
from npudoctor.facts.python.published_releases import misfit
from npudoctor.facts.system.storage import Mount, Mounts
from npudoctor.findings import Severity, Skip, Status
from npudoctor.host.live.local import LocalHost
from npudoctor.sdk import Unavailable
from npudoctor.testing import run
from tests.plain_user import ALICE, as_root, give, identity

working_folder_is_writable: Any = plugins.load().checks["stack.working-folder"]

FRAMEWORKS = [framework.name for framework in knowledge.stacks().frameworks]


def told(node: str, tmp_path: Path, *names: str, frameworks: tuple[str, ...] = ()) -> dict[str, Any]:
    path = tmp_path / "node.toml"
    path.write_text(node, encoding="utf-8")
    report = run(sim.simulate(str(path)), *(names or ("stack",)), frameworks=frameworks)
    return {result.check: result for result in report.results}


def packages(**versions: str) -> str:
    return python_with(versions)


def python_with(
    versions: dict[str, str], torch: str = "2.7.1", torch_npu: str = "2.7.1.post1", version: str = "3.11.13"
) -> str:
    said = ", ".join(f'"{name.replace("_", "-")}" = "{version}"' for name, version in versions.items())
    pair = f"torch = '{torch}'\ntorch_npu = '{torch_npu}'\n"
    return f"[python]\nversion = '{version}'\n{pair}packages = {{ {said} }}\n"


NODE = "product = 'atlas-800t-a2-910b3'\ncann = { version = '8.3.RC2' }\n"


def test_every_framework_of_the_table_has_a_check_and_the_other_way_round() -> None:
    checks = {name.partition(".")[2] for name in plugins.load().checks if name.startswith("stack.")}
    others = {"cache-folders", "operators", "service-port", "site", "working-folder"}
    assert checks - others == set(FRAMEWORKS)


@pytest.mark.parametrize(
    ("cann", "torch", "torch_npu", "versions", "hint"),
    [
        (
            "8.5.0",
            "2.7.1",
            "2.7.1.post1",
            {"vllm": "0.11.0", "vllm-ascend": "0.11.0"},
            "install torch 2.8.0 and torch_npu 2.8.0.post2 (the set published for vLLM Ascend 0.13.0)",
        ),
        (
            "9.0.0",
            "2.1.0",
            "2.1.0.post13",
            {"mindie-llm": "2.1rc1"},
            "Install CANN 8.2.RC1: torch and torch_npu are those of the set published for MindIE 2.1rc1.",
        ),
        ("8.5.0", "2.1.0", "2.1.0.post13", {"mindie-llm": "2.1rc1"}, "install torch_npu 2.1.0.post17"),
        ("8.5.0", "2.7.1", "2.7.1.post1", {}, "install torch_npu 2.7.1.post2"),
    ],
)
def test_the_pair_that_python_cann_pairing_proposes_is_that_of_the_installed_framework(
    cann: str, torch: str, torch_npu: str, versions: dict[str, str], hint: str, tmp_path: Path
) -> None:
    node = NODE.replace("8.3.RC2", cann) + python_with(versions, torch, torch_npu)
    [finding] = told(node, tmp_path, "python.cann-pairing")["python.cann-pairing"].findings
    assert hint in (finding.hint or "")
    assert finding.commands


def test_nnal_is_asked_for_by_the_framework_that_is_to_be_installed(tmp_path: Path) -> None:
    assert told(NODE, tmp_path, "cann.nnal")["cann.nnal"].status is Status.SKIPPED
    [finding] = told(NODE, tmp_path, "cann.nnal", frameworks=("vllm-ascend",))["cann.nnal"].findings
    assert "vllm-ascend" in finding.summary and finding.severity is Severity.ERROR
    [finding] = told(NODE + packages(vllm_ascend="0.11.0"), tmp_path, "cann.nnal")["cann.nnal"].findings
    assert finding.severity is Severity.WARNING
    verl = NODE + packages(verl="0.7.0", vllm_ascend="0.11.0")
    [finding] = told(verl, tmp_path, "cann.nnal", frameworks=("verl",))["cann.nnal"].findings
    assert finding.severity is Severity.ERROR
    assert told(NODE, tmp_path, "cann.nnal", frameworks=("verl",))["cann.nnal"].status is Status.SKIPPED
    assert told(NODE, tmp_path, "cann.nnal", frameworks=("mindspore",))["cann.nnal"].status is Status.SKIPPED


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_framework_that_is_not_installed_does_not_apply(name: str, tmp_path: Path) -> None:
    result = told(NODE, tmp_path)[f"stack.{name}"]
    assert result.status is Status.SKIPPED
    assert not result.leaves_undetermined


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_framework_that_is_asked_for_and_not_installed_is_an_error(name: str, tmp_path: Path) -> None:
    [finding] = told(NODE, tmp_path, frameworks=(name,))[f"stack.{name}"].findings
    assert finding.code == f"stack.{name}/required"
    assert finding.severity is Severity.ERROR
    assert finding.commands
    assert finding.hint
    assert any(character.isdigit() for character in finding.hint) or "https://" in finding.hint


@pytest.mark.parametrize("release", knowledge.stacks().releases, ids=lambda one: f"{one.framework}-{one.release}")
def test_a_published_set_fits_itself_and_no_other_torch(release: Any) -> None:
    for part, published in (item for one in release.sets() for item in one.requires.items()):
        exact = published.split(" or ")[0]
        if exact[0] in "<>=!~":
            continue
        assert misfit(part, published, exact) is None, part
        assert misfit(part, published, "0.0.1" if part != "cann" else "5.0.0") is Severity.ERROR, part


@pytest.mark.parametrize(
    ("release", "cann", "torch_npu", "triton_ascend"),
    [
        ("0.18.0", "8.5.1", "2.9.0.post1", "3.2.0.dev20260322"),
        ("0.18.0", "9.0.0", "2.9.0.post2", "3.2.1"),
        ("0.18.0", "8.5.1", "2.9.0", "3.2.0"),
        ("0.13.0rc2", "8.5.0", "2.8.0.post1", "3.2.0"),
        ("0.13.0rc2", "8.5.0", "2.8.0", "3.2.0"),
        ("0.11.0", "8.3.RC2", "2.7.1.post1", ""),
        ("0.11.0", "8.3.RC2", "2.7.1", ""),
        ("0.25.1rc1", "9.0.1", "2.10.0.post2", "3.2.1"),
    ],
)
def test_each_published_set_of_a_release_is_sound(
    release: str, cann: str, torch_npu: str, triton_ascend: str, tmp_path: Path
) -> None:
    [finding] = _of_set(release, cann, torch_npu, "0.0.1", tmp_path)
    assert finding.severity is Severity.ERROR
    assert _of_set(release, cann, torch_npu, triton_ascend, tmp_path) == ()


def _of_set(release: str, cann: str, torch_npu: str, triton_ascend: str, tmp_path: Path) -> Any:
    vllm = release.partition("rc")[0] if triton_ascend != "0.0.1" else "0.0.1"
    versions = {"vllm": vllm, "vllm_ascend": release} | ({"triton_ascend": triton_ascend} if triton_ascend else {})
    node = NODE.replace("8.3.RC2", cann) + python_with(versions, torch_npu.partition(".post")[0], torch_npu)
    return told(node, tmp_path)["stack.vllm-ascend"].findings


@pytest.mark.parametrize(
    ("release", "cann", "python", "versions"),
    [
        (
            "0.9.0",
            "9.1.0",
            "3.12.3",
            {
                "torch": "2.10.0",
                "torch_npu": "2.10.0.post4",
                "vllm": "0.23.0+empty",
                "vllm-ascend": "0.23.1.dev12+g1a2b3c4",
                "triton-ascend": "3.2.2",
                "transformers": "5.5.0.dev0",
            },
        ),
        (
            "0.9.0",
            "8.5.0",
            "3.11.13",
            {
                "torch": "2.8.0",
                "torch_npu": "2.8.0.post2",
                "sglang": "0.5.10",
                "triton-ascend": "3.2.1",
                "transformers": "5.3.0",
            },
        ),
        (
            "0.8.0",
            "8.5.0",
            "3.11.13",
            {
                "torch": "2.9.0",
                "torch_npu": "2.9.0.post2",
                "vllm": "0.18.0",
                "vllm-ascend": "0.18.1.dev45",
                "triton-ascend": "3.2.1",
                "transformers": "4.57.6",
            },
        ),
        (
            "0.7.0",
            "8.2.RC1",
            "3.11.13",
            {"torch": "2.5.1", "torch_npu": "2.5.1.post1", "vllm": "0.9.1", "vllm-ascend": "0.9.1"},
        ),
    ],
)
def test_what_images_of_verl_have_is_sound(
    release: str, cann: str, python: str, versions: dict[str, str], tmp_path: Path
) -> None:
    others = {**versions, "verl": release}
    pair = others.pop("torch"), others.pop("torch_npu")
    node = NODE.replace("8.3.RC2", cann) + python_with(others, *pair, python)
    assert told(node, tmp_path)["stack.verl"].findings == ()


def test_of_several_published_sets_the_one_of_this_cann_is_asked_for(tmp_path: Path) -> None:
    [finding] = _of_set("0.18.0", "9.0.0", "2.9.0.post2", "3.2.0", tmp_path)
    assert finding.params["required"] == ["triton-ascend 3.2.1"]
    index = "--extra-index-url https://mirrors.huaweicloud.com/ascend/repos/pypi"
    assert [one.partition(" -m ")[2] for one in finding.commands] == [f"pip install {index} triton-ascend==3.2.1"]


@pytest.mark.parametrize(
    ("part", "published", "here", "severity"),
    [
        ("torch", "2.7.1", "2.7.1+cpu", None),
        ("torch_npu", "2.7.1.post1", "2.7.1.post2", None),
        ("torch_npu", "2.7.1.post1", "2.7.1", Severity.WARNING),
        ("torch_npu", "2.9.0.post1+git4c901a4", "2.9.0.post1", None),
        ("vllm", "0.10.1 or 0.10.1.1", "0.10.1.1+empty", None),
        ("vllm", "0.10.1 or 0.10.1.1", "0.10.2", Severity.ERROR),
        ("vllm-ascend", "0.18.0", "0.18.1.dev45+g1a2b3c4", None),
        ("vllm-ascend", "0.13.0", "0.13.0rc4.dev11", None),
        ("vllm-ascend", "0.18.0", "0.18.1", Severity.ERROR),
        ("vllm-ascend", "0.18.0", "0.19.0rc1.dev3", Severity.ERROR),
        ("cann", "8.3.RC1", "8.3.RC1.1", None),
        ("cann", "8.3.RC1", "8.3.RC2", Severity.WARNING),
        ("cann", "8.5.0", "8.3.RC2", Severity.ERROR),
        ("cann", "8.5.0", "9.0.0", Severity.WARNING),
        ("cann", ">=8.3.RC1", "9.0.0", None),
        ("cann", ">=8.3.RC1, <9.0.0", "9.0.0", Severity.ERROR),
        ("cann", ">=8.3.RC1, <9.1.0", "9.1.0-beta.3", Severity.ERROR),
        ("cann", ">=8.3.RC1, <9.1.0", "9.0.1", None),
        ("python", ">= 3.10, < 3.12", "3.12.1", Severity.ERROR),
        ("transformers", ">=4.57.4, <5.0.0", "4.57.6", None),
        ("vllm", "0.11.0", "of my own", None),
    ],
)
def test_how_badly_a_release_differs(part: str, published: str, here: str, severity: Severity | None) -> None:
    assert misfit(part, published, here) is severity


def test_the_smallest_change_comes_in_the_order_of_installation(tmp_path: Path) -> None:
    result = told(NODE + packages(vllm="0.10.2", vllm_ascend="0.11.0"), tmp_path)["stack.vllm-ascend"]
    [finding] = result.findings
    assert finding.code == "stack.vllm-ascend/mismatch"
    assert finding.params["found"] == ["vllm 0.10.2"]
    assert [command.partition(" -m ")[2] for command in finding.commands] == [
        "pip install vllm==0.11.0",
        "pip install vllm-ascend==0.11.0"
        "  # again: installs the torch that it requires, where the line before replaced it",
    ]


def test_where_only_cann_is_missed_the_change_that_keeps_the_framework_is_named_too(tmp_path: Path) -> None:
    installed = {"vllm": "0.13.0+empty", "vllm_ascend": "0.13.0", "triton_ascend": "3.2.0"}
    older = NODE.replace("8.3.RC2", "8.3.RC1") + python_with(installed, torch="2.8.0", torch_npu="2.8.0.post2")
    [finding] = told(older, tmp_path)["stack.vllm-ascend"].findings
    assert finding.hint is not None
    assert finding.hint.startswith("Smallest change: install vLLM Ascend 0.11.0rc1, ")
    assert finding.hint.endswith(" Or keep vLLM Ascend 0.13.0, and install CANN 8.5.0.")


MINDSPORE = "product = 'atlas-800t-a2-910b3'\ncann = { version = '8.2.RC1' }\ndriver = { version = '25.2.0' }\n"


@pytest.mark.parametrize(
    ("versions", "torch", "expected"),
    [
        ({"mindspore": "2.7.0"}, "", {}),
        ({"mindspore": "2.7.0"}, "2.6.0", {}),
        ({}, "", {"python.torch": Status.ERROR}),
        ({"mindspore": "2.7.0", "ms_swift": "3.9.0"}, "", {"python.torch": Status.ERROR}),
    ],
)
def test_a_framework_of_its_own_requires_no_torch(
    versions: dict[str, str], torch: str, expected: dict[str, Status], tmp_path: Path
) -> None:
    results = told(MINDSPORE + python_with(versions, torch=torch, torch_npu=""), tmp_path, "python")
    wrong = {name: one.status for name, one in results.items() if name.startswith("python.") and one.findings}
    assert {name: status for name, status in wrong.items() if status is Status.ERROR} == expected


@pytest.mark.parametrize(("name", "status"), [("mindspore", Status.SKIPPED), ("vllm-ascend", Status.ERROR)])
def test_a_framework_that_is_asked_for_decides_whether_torch_is_required(
    name: str, status: Status, tmp_path: Path
) -> None:
    bare = MINDSPORE + python_with({}, torch="", torch_npu="")
    assert told(bare, tmp_path, "python.torch", frameworks=(name,))["python.torch"].status is status


def test_a_wrong_cann_is_said_where_no_torch_is_required(tmp_path: Path) -> None:
    bare = MINDSPORE.replace("8.2.RC1", "8.0.RC3") + python_with({"mindspore": "2.10.0"}, torch="", torch_npu="")
    results = told(bare, tmp_path, "python", "stack")
    assert {name for name, one in results.items() if one.status is Status.ERROR} == {"stack.mindspore"}
    (finding,) = results["stack.mindspore"].findings
    assert finding.hint.endswith(" Or keep MindSpore 2.10.0, and install CANN 9.1.0.")
    moot = {"python.pairing", "python.cann-pairing", "python.known-bad"}
    assert {results[name].reason for name in moot} == {"MindSpore requires no torch"}
    assert {results[name].skip for name in moot} == {Skip.NOT_APPLICABLE}


@pytest.mark.parametrize(("version", "is_in_index"), [("2.2.14", False), ("2.6.0rc1", False), ("2.7.0", True)])
def test_a_release_that_the_package_index_lacks_is_not_advised_by_pip(version: str, *, is_in_index: bool) -> None:
    assert knowledge.stacks().framework("mindspore").has_in_package_index(version) is is_in_index
    assert not knowledge.stacks().framework("mindie").has_in_package_index(version)


def test_a_source_build_is_unknown_and_not_wrong(tmp_path: Path) -> None:
    result = told(NODE + packages(vllm="0.11.0", vllm_ascend="0.1.dev1+g3ab12cd"), tmp_path)["stack.vllm-ascend"]
    assert (result.status, [one.code for one in result.findings]) == (Status.OK, ["stack.vllm-ascend/not-listed"])


def test_a_host_without_cann_is_not_ready_for_a_framework_that_is_asked_for(tmp_path: Path) -> None:
    bare = "product = 'atlas-800t-a2-910b3'\ncann = { installed = false }\n" + python_with({}, torch="", torch_npu="")
    names = ("cann.installed", "stack.vllm-ascend")
    asked = told(bare, tmp_path, *names, frameworks=("vllm-ascend",))
    assert [asked[name].status for name in names] == [Status.ERROR, Status.ERROR]
    assert [told(bare, tmp_path, *names)[name].status for name in names] == [Status.SKIPPED, Status.SKIPPED]


def test_an_unknown_chip_is_a_warning_for_a_framework_that_is_asked_for(tmp_path: Path) -> None:
    node = "product = 'atlas-300i-duo'\ncann = { version = '8.5.0' }\n" + python_with(
        {"sglang": "0.5.12"}, torch="2.8.0", torch_npu="2.8.0.post2"
    )
    for frameworks, severity in (((), Severity.INFO), (("sglang",), Severity.WARNING)):
        result = told(node, tmp_path, frameworks=frameworks)["stack.sglang"]
        assert [one.severity for one in result.findings if one.code == "stack.sglang/chip-not-listed"] == [severity]


@pytest.mark.parametrize(("cann", "is_there"), [("9.1.0", True), ("8.5.0", False)])
def test_commands_name_huawei_s_index_only_for_what_the_package_index_lacks(
    cann: str, tmp_path: Path, *, is_there: bool
) -> None:
    bare = f"product = 'atlas-800t-a2-910b3'\ncann = {{ version = '{cann}' }}\n" + python_with(
        {}, torch="", torch_npu=""
    )
    (finding,) = told(bare, tmp_path, frameworks=("vllm-ascend",))["stack.vllm-ascend"].findings
    [command] = [one for one in finding.commands if "pip install" in one and "vllm-ascend==" in one]
    assert ("--extra-index-url https://mirrors.huaweicloud.com/" in command) is is_there


def test_an_unknown_release_that_is_asked_for_is_a_warning(tmp_path: Path) -> None:
    node = NODE + packages(vllm="0.99.0", vllm_ascend="0.99.0")
    (finding,) = told(node, tmp_path, frameworks=("vllm-ascend",))["stack.vllm-ascend"].findings
    assert (finding.code, finding.severity) == ("stack.vllm-ascend/not-listed", Severity.WARNING)
    assert finding.commands == ("npudoctor knowledge pair --for vllm-ascend",)


@pytest.mark.parametrize(
    ("name", "version", "release"),
    [
        *(("sglang", "99.1", None), ("sglang", "0.0.7", None), ("sglang", "0.4.6", None)),
        *(("llamafactory", "99.1", None), ("llamafactory", "0.9.4", "0.9.4"), ("llamafactory", "0.9.4.dev0", None)),
        *(("sglang", "0.5.1", "0.5.1.*"), ("sglang", "0.5.10rc0", "0.5.10.*"), ("sglang", "0.5.8.post1", "0.5.8.*")),
        *(("sglang", "0.5.6.post1", "0.5.6.*"), ("sglang", "0.5.6.post2", "0.5.6.post2")),
        *(("sglang", "0.5.12.post2.dev434+gb13d3d18c", None), ("ms-swift", "4.5", "4.5.*")),
        *(("mindie", "2.2.RC1", "2.2rc1"), ("mindie", "2.2.rc1", "2.2rc1"), ("mindie", "v2.2-rc1", "2.2rc1")),
        *(("mindie", "2.2", None), ("mindie", "2.2.RC11", None), ("vllm-ascend", "0.7.3-post1", "0.7.3.post1")),
        *(
            ("vllm-ascend", "0.11.0.rc1", "0.11.0rc1"),
            ("lmdeploy", "0.12.0", "0.12.0"),
            ("lmdeploy", "0.12.3", "0.12.*"),
        ),
    ],
)
def test_a_release_has_its_own_row_in_any_spelling_or_none(name: str, version: str, release: str | None) -> None:
    row = knowledge.stacks().release(name, version)
    assert (row.release if row is not None else None) == release


@pytest.mark.parametrize("name", FRAMEWORKS)
@pytest.mark.parametrize("version", ["99.1", "0.0.7"])
def test_a_release_that_no_table_names_is_said_to_be_unknown(name: str, version: str, tmp_path: Path) -> None:
    package = knowledge.stacks().framework(name).package
    result = told(NODE + packages(**{package: version}), tmp_path)[f"stack.{name}"]
    assert (result.status, [one.code for one in result.findings]) == (Status.OK, [f"stack.{name}/not-listed"])


PRODUCTS = {
    "910": "atlas-800-9000",
    "A2": "atlas-800t-a2-910b3",
    "A3": "atlas-800t-a3",
    "310P": "atlas-300i-duo",
    "950": "atlas-350-950pr",
}


@pytest.mark.parametrize("family", PRODUCTS)
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_chip_is_supported_or_not_or_said_to_be_unknown(name: str, family: str, tmp_path: Path) -> None:
    table = knowledge.stacks()
    framework = table.framework(name)
    support = table.chip(framework.package, family)
    node = f"product = '{PRODUCTS[family]}'\n" + packages(**{framework.package: "99.1"})
    result = told(node, tmp_path)[f"stack.{name}"]
    codes = [one.code.partition("/")[2] for one in result.findings]
    assert ("chip" in codes) == (support is not None and not support.supported)
    assert ("chip-not-listed" in codes) == (support is None)
    assert (result.status is Status.OK) == (support is None or support.supported)


def test_what_is_known_of_other_chips_is_said(tmp_path: Path) -> None:
    node = f"product = '{PRODUCTS['310P']}'\n" + packages(verl="0.9.0")
    finding = told(node, tmp_path)["stack.verl"].findings[0]
    assert finding.summary.startswith("verl on 310P chips: not in the tables of ")
    assert finding.detail == "Its documents name A2, A3, 950. Whether it runs here is unknown."


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_pair_says_that_it_does_not_know_a_release(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["knowledge", "pair", "--for", f"{name}=99.0"]) == 1
    assert capsys.readouterr().out.startswith(f"{knowledge.stacks().framework(name).title} 99.0: not in the tables\n")


@pytest.mark.parametrize(
    ("chip", "family"),
    [
        *(("ascend910b1", "A2"), ("Ascend910B4", "A2"), ("ascend910_93", "A3"), ("ascend910_9391", "A3")),
        *(("ascend310p3", "310P"), ("_310P", "310P"), ("A5", "950"), ("ascend910", "910"), ("cuda", None)),
    ],
)
def test_a_build_names_a_chip_in_many_ways(chip: str, family: str | None) -> None:
    assert family_of(chip) == family


def test_without_the_package_folders_operators_do_not_apply(tmp_path: Path) -> None:
    assert told(NODE, tmp_path)["stack.operators"].status is Status.SKIPPED


def test_a_working_directory_is_not_judged_without_a_job(tmp_path: Path) -> None:
    result = told(NODE, tmp_path)["stack.working-folder"]
    assert result.status is Status.SKIPPED
    assert not result.leaves_undetermined


def test_pair_prints_what_a_release_requires(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["knowledge", "pair", "--vllm-ascend", "0.11.0"]) == 0
    assert "8.3.RC2" in capsys.readouterr().out
    assert main(["knowledge", "pair", "--for", "vllm-ascend", "--cann", "8.2.RC1", "--torch", "2.5.1"]) == 0
    assert "vLLM Ascend 0.9.1" in capsys.readouterr().out
    assert main(["knowledge", "pair", "--vllm-ascend", "77.0"]) == 1


@pytest.mark.parametrize("words", [["knowledge", "pair", "--for", "vlm"], ["check", "--for", "vlm"]])
def test_an_unknown_framework_is_one_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    try:
        assert main(words) == 2
    except SystemExit as left:
        assert left.code == 2
    said = capsys.readouterr().err
    assert "vllm-ascend" in said
    assert said.count("\n") == 1


# The working directory of a job: real processes


@contextlib.contextmanager
def started_in(folder: Path, *, uid: int | None) -> Iterator[int]:
    who: dict[str, Any] = identity(uid) if uid is not None else {}
    with subprocess.Popen(["sleep", "600"], cwd=folder, **who) as process:
        try:
            yield process.pid
        finally:
            process.kill()


def of_job(pid: int, *mounts: Mount, **variables: str) -> Any:
    function: Any = working_folder.function
    return function(LocalHost(), JobEnvironment(variables, f"pid:{pid}"), None, Mounts(mounts))


@as_root
def test_the_working_directory_of_another_users_job_is_judged_by_his_rights(open_folder: Path) -> None:
    closed, own = open_folder / "closed", open_folder / "own"
    closed.mkdir(mode=0o755)
    own.mkdir()
    give(own, ALICE)
    with started_in(closed, uid=ALICE) as pid:
        assert of_job(pid).why_not == "owner"
        assert of_job(pid, ASCEND_WORK_PATH="/data").instead == "ASCEND_WORK_PATH"
    with started_in(own, uid=ALICE) as pid:
        assert of_job(pid).why_not is None
    with started_in(closed, uid=None) as pid:
        assert of_job(pid).why_not is None


def test_a_read_only_file_system_is_named(tmp_path: Path) -> None:
    with started_in(tmp_path, uid=None) as pid:
        root, here = Mount(mount="/", fstype="ext4"), Mount(mount=str(tmp_path), fstype="ext4", options=("ro",))
        assert of_job(pid, root, here).why_not == "read-only"
        [finding] = working_folder_is_writable(of_job(pid, root, here))
        assert finding.code == "stack.working-folder/read-only"
        assert list(working_folder_is_writable(of_job(pid, root))) == []


def test_a_job_that_has_ended_is_unknown() -> None:
    with pytest.raises(Unavailable, match="working directory of process 999999999 unknown"):
        of_job(999999999)
