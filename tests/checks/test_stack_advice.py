"""The advice of the checks of frameworks is a fixed point: what it installs leaves nothing to say."""

from __future__ import annotations

import itertools
import json
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from npudoctor import knowledge, sim
from npudoctor.facts.python.published_releases import misfit
from npudoctor.findings import Finding, Severity
from npudoctor.knowledge.tables.stacks import FrameworkRelease
from npudoctor.records import replace
from npudoctor.testing import run

TABLE = knowledge.stacks()
STACKS = tuple(f"stack.{framework.name}" for framework in TABLE.frameworks)
JUDGED = (
    "stack",
    "python.version",
    "python.torch",
    "python.torch-npu",
    "python.pairing",
    "python.cann-pairing",
    "cann.driver",
)

Node = dict[str, Any]


def node(
    cann: str = "8.3.RC2",
    torch: str = "2.7.1",
    torch_npu: str = "2.7.1.post1",
    python: str = "3.11.13",
    driver: str = "25.5.0",
    product: str = "atlas-800t-a2-910b3",
    **packages: str,
) -> Node:
    """A node; names of packages have underscores for hyphens."""
    named = {name.replace("_", "-"): version for name, version in packages.items()}
    return {
        "product": product,
        "cann": cann,
        "driver": driver,
        "python": python,
        "torch": torch,
        "torch_npu": torch_npu,
        "packages": named,
    }


def findings(said: Node, folder: Path, *names: str, frameworks: tuple[str, ...] = ()) -> list[Finding]:
    path = folder / "node.toml"
    cann = f"{{ version = '{said['cann']}', nnal = '{said['cann']}' }}" if said["cann"] else "{ installed = false }"
    packages = ", ".join(f"{json.dumps(name)} = {json.dumps(one)}" for name, one in said["packages"].items())
    lines = [
        f"product = '{said['product']}'",
        f"cann = {cann}",
        f"driver = {{ version = '{said['driver']}' }}",
        "[python]",
        *(f"{part} = '{said[part]}'" for part in ("torch", "torch_npu")),
        f"version = '{said['python']}'",
        f"packages = {{ {packages} }}",
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    report = run(sim.simulate(str(path)), *names, frameworks=frameworks)
    return [finding for result in report.results for finding in result.findings]


def applied(said: Node, commands: tuple[str, ...]) -> Node:
    """The node after these commands, as far as they change releases."""
    then = {**said, "packages": dict(said["packages"])}
    for line in commands:
        if found := re.search(r"npu-driver_([\w.<>]+)_linux", line):
            then["driver"] = found[1].replace("<version>", "25.5.0")
        if found := re.search(r"cann-toolkit_([\w.-]+)_linux", line):
            then["cann"] = found[1]
        if found := re.match(r"conda create -n \S+ python=([\d.]+)", line):
            then |= {"python": f"{found[1]}.9", "torch": "", "torch_npu": "", "packages": {}}
        if found := re.match(r"npudoctor knowledge pair --for '?(\S+)=([^\s']+)'?  # ", line):
            then["packages"][TABLE.framework(found[1]).package] = found[2]
        if " -m pip " in line:
            words = shlex.split(line.partition("  # ")[0])
            words = [word for word in words[words.index("pip") + 1 :] if not word.startswith(("-", "https://"))]
            for word in words[1:]:
                _install(then, Requirement(word)) if words[0] == "install" else then["packages"].pop(word)
    return then


def _install(then: Node, wanted: Requirement) -> None:
    """What pip would do: what is here stays where it is meant, else the newest that is meant."""
    place = then if wanted.name in ("torch", "torch_npu") else then["packages"]
    here = place.get(wanted.name)
    if here and wanted.specifier.contains(here, prereleases=True):
        return
    exact = [one.version for one in wanted.specifier if one.operator == "=="]
    bounds = exact or [one.version for one in wanted.specifier if one.operator == ">="]
    version = (bounds or ["1.0"])[0].partition("+")[0]
    place[wanted.name] = version.replace(".*", ".99")


def problems(said: Node, folder: Path, *frameworks: str) -> list[Finding]:
    return [one for one in findings(said, folder, *JUDGED, frameworks=frameworks) if one.severity > Severity.INFO]


def assert_settles(said: Node, folder: Path, *frameworks: str) -> None:
    """What the checks of frameworks advise leaves nothing; where only others do, no node comes a second time."""
    known: list[Node] = []
    while told := problems(said, folder, *(frameworks if not known else ())):
        assert said not in known, known
        known.append(said)
        of_stacks = [one for one in told if (one.code or "").startswith("stack.")]
        commands = tuple(command for one in of_stacks or told for command in one.commands)
        assert all(one.commands for one in told), told
        said = applied(said, commands)
        left = problems(said, folder)
        assert not (of_stacks and left), (known[-1], commands, said, [one.summary for one in left])


def _exact(published: str) -> str:
    found = re.search(r">=\s*([^\s,]+)", published)
    return (found[1] if found else published.split(" or ")[-1]).partition("+")[0]


def _release(row: FrameworkRelease) -> str:
    return row.release.replace(".*", ".99") if row.release != "*" else "0.9"


PLACES: tuple[Mapping[str, str], ...] = (
    {"cann": "8.3.RC2", "torch": "2.7.1", "torch_npu": "2.7.1.post1", "python": "3.11.13", "driver": "25.5.0"},
    {"cann": "9.0.0", "torch": "2.10.0", "torch_npu": "2.10.0", "python": "3.11.13", "driver": "25.5.0"},
    {"cann": "9.1.0", "torch": "2.10.0", "torch_npu": "2.10.0.post6", "python": "3.12.3", "driver": "24.1.0"},
    {"cann": "7.0.0", "torch": "2.1.0", "torch_npu": "2.1.0", "python": "3.9.9", "driver": "23.0.3"},
    {"cann": "8.2.RC1", "torch": "2.6.0", "torch_npu": "2.6.0", "python": "3.10.12", "driver": "24.1.0"},
    {"cann": "8.5.0", "torch": "2.5.1", "torch_npu": "2.8.0.post2", "python": "3.9.18", "driver": "25.2.0"},
    {"cann": "9.0.0", "torch": "2.3.1", "torch_npu": "2.3.1", "python": "3.13.1", "driver": "25.5.0"},
    {"cann": "8.3.RC1", "torch": "", "torch_npu": "", "python": "3.11.13", "driver": "25.5.0"},
    {"cann": "", "torch": "2.8.0", "torch_npu": "2.8.0.post2", "python": "3.10.12", "driver": "24.1.0"},
)


def nodes_of(name: str) -> Iterator[tuple[Node, bool]]:
    """Nodes with releases of a framework and of its packages on each place, complete and not; and without it."""
    framework, rows = TABLE.framework(name), [one for row in TABLE.of(name) for one in row.sets()]
    places = [place for place in PLACES if place["torch"] or all("torch" in row.requires for row in rows)]
    for number, place in enumerate(places):
        for row, other in itertools.product(rows[:: max(1, len(rows) // 4)], rows[:: max(1, len(rows) // 2)]):
            named = {*row.requires, *other.requires} - {"cann", "python", "torch", "torch_npu"}
            if named >= {"sglang", "vllm-ascend"}:
                continue  # two engines in one environment: each is judged by itself
            wanted = {part: _exact({**row.requires, **other.requires}[part]) for part in sorted(named)}
            packages = wanted if (row is other) is bool(number % 2) else dict(list(wanted.items())[number % 3 :: 2])
            yield node(**place, **{**packages, framework.package: _release(row)}), False
        yield node(**place), True


@pytest.mark.parametrize("name", [framework.name for framework in TABLE.frameworks])
@pytest.mark.slow
def test_the_advice_leaves_nothing_to_say(name: str, tmp_path: Path) -> None:
    for said, asked in nodes_of(name):
        assert_settles(said, tmp_path, *([name] if asked else []))


@pytest.mark.parametrize("name", [framework.name for framework in TABLE.frameworks])
def test_the_advice_for_a_few_nodes_leaves_nothing_to_say(name: str, tmp_path: Path) -> None:
    for said, asked in itertools.islice(nodes_of(name), 0, None, 19):
        assert_settles(said, tmp_path, *([name] if asked else []))


# What each part of the advice is


def of(said: Node, folder: Path, name: str, *, asked: bool = False) -> Finding:
    [finding] = findings(said, folder, f"stack.{name}", frameworks=(name,) if asked else ())
    return finding


def shown(finding: Finding) -> list[str]:
    """The commands without the path of Python and without comments."""
    return [re.sub(r"^\S*python3? -m ", "", command.partition("  # ")[0]) for command in finding.commands]


def test_a_range_is_met_by_the_nearest_release_that_fits_cann(tmp_path: Path) -> None:
    said = node(cann="9.0.0", torch="2.10.0", torch_npu="2.10.0", lmdeploy="0.16.0", dlinfer_ascend="0.2.5")
    finding = of(said, tmp_path, "lmdeploy")
    assert shown(finding) == ['pip install "torch==2.9.0"', 'pip install --no-deps "torch_npu==2.9.0.post2"']
    assert "torch 2.9.0" in (finding.hint or "")


def test_a_framework_that_the_package_index_lacks_is_not_installed_by_pip(tmp_path: Path) -> None:
    said = node(cann="8.5.0", torch="2.9.0", torch_npu="2.9.0", lmdeploy="0.12.0", dlinfer_ascend="0.2.5")
    assert shown(of(said, tmp_path, "lmdeploy")) == ["npudoctor knowledge pair --for 'lmdeploy=0.12.*'"]


def test_triton_ascend_on_310p_is_to_be_removed_and_never_installed(tmp_path: Path) -> None:
    place = {"product": "atlas-300i-duo", "cann": "8.5.0", "torch": "2.8.0", "torch_npu": "2.8.0.post2"}
    said = node(**place, vllm="0.13.0", vllm_ascend="0.13.0", triton_ascend="3.2.0")
    finding = of(said, tmp_path, "vllm-ascend")
    assert (finding.code, finding.params["package"]) == ("stack.vllm-ascend/chip", "triton-ascend")
    assert shown(finding) == ["pip uninstall -y triton-ascend"]
    assert problems(applied(said, finding.commands), tmp_path) == []
    assert not any("triton" in line for line in shown(of(node(**place), tmp_path, "vllm-ascend", asked=True)))


def test_one_framework_names_a_package_that_does_not_run_here(tmp_path: Path) -> None:
    place = {"product": "atlas-300i-duo", "cann": "8.5.0", "torch": "2.8.0", "torch_npu": "2.8.0.post2"}
    packages = {"vllm": "0.13.0", "vllm_ascend": "0.13.0", "triton_ascend": "3.2.0", "verl": "0.7.1"}
    told = findings(node(**place, **packages, transformers="4.57.6"), tmp_path, "stack")
    assert [one.code for one in told if one.severity > Severity.INFO] == ["stack.vllm-ascend/chip"]


def test_an_unsupported_framework_is_not_installed(tmp_path: Path) -> None:
    finding = of(node(product="atlas-800-9000"), tmp_path, "vllm-ascend", asked=True)
    assert (finding.code, finding.commands) == ("stack.vllm-ascend/chip", ())


@pytest.mark.parametrize(
    ("packages", "name", "missing", "severity"),
    [
        ({"vllm_ascend": "0.11.0"}, "vllm-ascend", ["vllm 0.11.0"], Severity.ERROR),
        (
            {"vllm_ascend": "0.11.0rc1", "vllm": "0.11.0", "verl": "0.7.0"},
            "verl",
            ["triton-ascend 3.2.0rc4"],
            Severity.WARNING,
        ),
        ({"lmdeploy": "0.14.0"}, "lmdeploy", ["dlinfer-ascend >=0.2.5"], Severity.ERROR),
    ],
)
def test_a_required_package_that_is_not_installed_is_found(
    packages: dict[str, str], name: str, missing: list[str], severity: Severity, tmp_path: Path
) -> None:
    cann = "8.3.RC1" if name == "verl" else "8.3.RC2"
    finding = of(node(cann=cann, **packages), tmp_path, name)
    assert (finding.code, finding.severity) == (f"stack.{name}/missing", severity)
    assert finding.params["required"] == missing
    assert finding.summary.endswith("; not installed")


def test_triton_ascend_is_missed_where_the_release_requires_it(tmp_path: Path) -> None:
    place = {"cann": "8.5.0", "torch": "2.8.0", "torch_npu": "2.8.0.post2"}
    finding = of(node(**place, vllm="0.13.0", vllm_ascend="0.13.0"), tmp_path, "vllm-ascend")
    assert finding.params["required"] == ["triton-ascend 3.2.0"]
    assert findings(node(vllm="0.11.0", vllm_ascend="0.11.0"), tmp_path, "stack.vllm-ascend") == []


def test_verl_with_another_engine_needs_no_vllm(tmp_path: Path) -> None:
    said = node(cann="8.3.RC1", torch_npu="2.7.1", verl="0.7.0")
    assert of(said, tmp_path, "verl").params["required"] == [
        *("vllm 0.11.0", "vllm-ascend 0.11.0rc1", "triton-ascend 3.2.0rc4"),
    ]
    said["packages"]["sglang"] = "0.5.8"
    assert findings(said, tmp_path, "stack.verl") == []


def test_a_mismatch_names_what_is_missing_too(tmp_path: Path) -> None:
    finding = of(node(torch="2.8.0", torch_npu="2.8.0", vllm_ascend="0.11.0"), tmp_path, "vllm-ascend")
    assert finding.params["found"] == ["torch 2.8.0", "torch_npu 2.8.0", "no vllm"]


def test_an_old_driver_is_that_of_the_driver_s_check(tmp_path: Path) -> None:
    said = node(driver="23.0.3", vllm="0.11.0", vllm_ascend="0.11.0")
    path = tmp_path / "node.toml"
    assert findings(said, tmp_path, "stack.vllm-ascend") == []
    report = run(sim.simulate(str(path)), "stack.vllm-ascend", "cann.driver")
    assert [(one.check, one.status.value, one.blocked_by) for one in report.results] == [
        ("cann.driver", "error", None),
        ("stack.vllm-ascend", "skipped", "cann.driver"),
    ]
    assert run(sim.simulate(str(path)), "stack.vllm-ascend").exit_code == 3


def test_a_newer_cann_comes_with_the_driver_that_it_requires(tmp_path: Path) -> None:
    place = {"cann": "9.0.0", "torch": "2.10.0", "torch_npu": "2.10.0.post4", "driver": "24.1.0"}
    said = node(**place, product="atlas-350-950pr", vllm="0.23.0", vllm_ascend="0.23.0", triton_ascend="3.2.2")
    finding = of(said, tmp_path, "vllm-ascend")
    assert finding.params["required"] == ["driver 26.0.RC1", "CANN 9.1.0"]
    assert [re.sub(r"^\./(?:Ascend|Atlas)-", "", line) for line in shown(finding)[1:]] == [
        "A5-hdk-npu-firmware_<version>.run --upgrade",
        "A5-hdk-npu-driver_26.0.RC1_linux-aarch64.run --upgrade",
        "reboot",
        "cann-toolkit_9.1.0_linux-$(arch).run --install",
        "cann-950-ops_9.1.0_linux-$(arch).run --install",
        "cann-nnal_9.1.0_linux-$(arch).run --install",
    ]


def test_a_newer_cann_is_not_advised_where_the_driver_is_too_old_for_it(tmp_path: Path) -> None:
    said = node(driver="26.0.RC1", cann="9.2.0", torch="", torch_npu="")
    finding = of(said, tmp_path, "mindspore", asked=True)
    assert [line for line in shown(finding) if "toolkit" in line or "driver" in line] == [
        "./Ascend-cann-toolkit_9.1.1_linux-$(arch).run --install"
    ]


def test_a_driver_that_is_too_old_for_this_cann_is_replaced_whatever_cann_is_advised(tmp_path: Path) -> None:
    finding = of(node(driver="24.1.0", cann="9.2.0", torch="", torch_npu=""), tmp_path, "mindspore", asked=True)
    assert [line for line in shown(finding) if "toolkit" in line or "driver" in line] == [
        "./Ascend-hdk-910b-npu-driver_26.1.1_linux-aarch64.run --upgrade",
        "./Ascend-cann-toolkit_9.1.1_linux-$(arch).run --install",
    ]


def test_the_nearest_cann_wins_where_two_cost_the_same(tmp_path: Path) -> None:
    finding = of(node(cann="8.0.RC1", python="3.10.4"), tmp_path, "mindspore", asked=True)
    assert "MindSpore 2.3.1" in (finding.hint or "")
    assert "cann-toolkit_8.0.RC2" in shown(finding)[0]


@pytest.mark.parametrize(
    ("name", "said", "lines"),
    [
        ("vllm-ascend", node(), ["pip install vllm==0.11.0", "pip install vllm-ascend==0.11.0"]),
        (
            "verl",
            node(cann="8.3.RC1", torch_npu="2.7.1"),
            [
                "pip install vllm==0.11.0",
                "pip install vllm-ascend==0.11.0",
                "pip install verl==0.7.1 triton-ascend==3.2.0 transformers==4.57.6",
            ],
        ),
        (
            "vllm-ascend",
            node(python="3.12.3", vllm="0.11.0", vllm_ascend="0.11.0"),
            [
                "conda create -n vllm-ascend python=3.11",
                "conda activate vllm-ascend",
                'pip install "torch==2.7.1"',
                'pip install --no-deps "torch_npu==2.7.1.post1"',
                "pip install vllm==0.11.0",
                "pip install vllm-ascend==0.11.0",
            ],
        ),
        ("mindie", node(mindie_llm="3.0.0"), ["npudoctor knowledge pair --for mindie=2.2rc1"]),
        (
            "mindspeed",
            node("7.0.0", "2.1.0", "2.1.0", "3.9.9", "23.0.3", mindspeed="0.12.1"),
            [
                "./Ascend-cann-toolkit_8.0.RC2_linux-$(arch).run --install",
                "./Ascend-cann-kernels-910b_8.0.RC2_linux-$(arch).run --install",
                'pip install --no-deps "torch_npu==2.1.0.post6"',
            ],
        ),
    ],
)
def test_the_commands_are_whole_and_in_order(name: str, said: Node, lines: list[str], tmp_path: Path) -> None:
    finding = of(said, tmp_path, name, asked=not said["packages"])
    assert shown(finding) == lines


def test_a_plug_in_follows_the_release_of_what_requires_it(tmp_path: Path) -> None:
    said = node(vllm="0.11.0", vllm_ascend="0.11.0rc1", verl="0.7.0", triton_ascend="3.2.0rc4")
    told = [one for one in findings(said, tmp_path, "stack") if one.severity > Severity.INFO]
    assert {one.code for one in told} == {"stack.verl/mismatch", "stack.vllm-ascend/mismatch"}
    assert told[0].commands == told[1].commands


def test_in_a_container_the_driver_is_the_host_s(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    path.write_text(
        "product = 'atlas-800t-a2-910b3'\ndriver = { version = '24.1.0' }\ncann = { version = '9.0.0' }\n"
        "container = { runtime = 'docker' }\n[python]\nversion = '3.11.13'\ntorch = '2.10.0'\n"
        "torch_npu = '2.10.0.post4'\n"
        "packages = { vllm = '0.23.0', vllm-ascend = '0.23.0', triton-ascend = '3.2.2' }\n",
        encoding="utf-8",
    )
    report = run(sim.simulate(str(path)), "stack.vllm-ascend")
    [finding] = [finding for result in report.results for finding in result.findings]
    assert (finding.hint or "").endswith("The driver belongs to the host: upgrade it there.")
    assert not any("hdk" in command for command in finding.commands)


@pytest.mark.parametrize(
    ("driver", "here", "fits"),
    [
        ("26.0.0", "23.0.3", False),
        ("26.0.0", "26.0.0", True),
        ("25.0.0", "26.0.rc1", True),
        (">=25.5.1", "25.5.0", False),
        (">=25.5.1", "25.5.2", True),
        (">=24.1.0, <25.0.0", "25.2.0", False),
        ("25.2.X", "25.0.0", False),
        ("25.2.X", "25.2.3", True),
    ],
)
def test_a_newer_driver_than_the_published_one_fits(driver: str, here: str, fits: bool) -> None:
    assert (misfit("driver", driver, here) is None) is fits


def test_a_set_may_name_a_driver_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    requires = {"cann": "8.3.RC2", "driver": ">=25.5.1"}
    row = FrameworkRelease(framework="vllm-ascend", release="9.9.0", requires=requires)
    table = replace(TABLE, releases=(row,))
    monkeypatch.setattr(knowledge, "stacks", lambda: table)
    finding = of(node(driver="25.5.0", vllm_ascend="9.9.0"), tmp_path, "vllm-ascend")
    assert finding.params["found"] == ["driver 25.5.0"]
    assert "./Ascend-hdk-910b-npu-driver_25.5.1_linux-aarch64.run --upgrade" in shown(finding)
    assert findings(node(driver="26.0.rc1", vllm_ascend="9.9.0"), tmp_path, "stack.vllm-ascend") == []


def test_a_set_s_own_driver_is_found_beside_its_cann(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    requires = {"cann": "9.1.0", "driver": "26.0.0"}
    row = FrameworkRelease(framework="verl", release="0.99.0", requires=requires)
    table = replace(TABLE, releases=(row, *TABLE.releases))
    monkeypatch.setattr(knowledge, "stacks", lambda: table)
    finding = of(node(driver="23.0.3", verl="0.99.0"), tmp_path, "verl")
    assert finding.params["required"] == ["driver 26.0.0", "CANN 9.1.0"]


def test_two_frameworks_on_one_node_do_not_take_turns(tmp_path: Path) -> None:
    """Each of them alone would undo the other's change: one takes torch 2.9, the other 2.10."""
    said = node("9.0.0", "2.10.0", "2.10.0", vllm="0.21.0", vllm_ascend="0.21.0rc1", triton_ascend="3.2.1")
    said["packages"] |= {"lmdeploy": "0.16.0", "dlinfer-ascend": "0.2.5"}
    known: list[Node] = []
    while told := [one for one in findings(said, tmp_path, *STACKS) if one.severity > Severity.INFO]:
        assert said not in known
        known.append(said)
        said = applied(said, told[0].commands)
    assert len(known) == 2
