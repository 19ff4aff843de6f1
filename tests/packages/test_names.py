"""What a file name says of a package, for every published name and for names of the same kinds."""

import json
import re
from pathlib import Path

import pytest

from npudoctor.packages.names import parse_name

HERE = Path(__file__).parent
INSTALL = HERE.parents[2] / "shared" / "knowledge" / "install.json"
ROWS = [
    line.split("\t")
    for line in (HERE / "names.tsv").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]
OWN_IDS = {"extras": ("docker_runtime", "toolbox"), "nnae_nnrt": ("nnae", "nnrt")}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row[0]))
def test_a_name_is_told_rightly(row: list[str]) -> None:
    name, component, version, arch, family = row
    found = parse_name(name)
    if component == "-":
        assert found is None
        return
    assert found is not None
    families = found.families or (None,)
    assert (found.component, found.version, found.arch or "-", families[0] or "-") == (component, version, arch, family)


def test_every_real_name_of_the_collection_is_told_rightly() -> None:
    if not INSTALL.is_file():
        pytest.skip("the folder ../shared with the collected names is not there")
    names = 0
    for component in json.loads(INSTALL.read_text(encoding="utf-8"))["components"]:
        for pattern in component["file_patterns"]:
            for name in pattern["examples"]:
                names += 1
                if component["id"] == "signatures":
                    continue
                said = re.match(pattern["regex"], name, re.I)
                found = parse_name(name)
                assert said is not None, name
                assert found is not None, name
                expected = ("firmware",) if "firmware" in name else OWN_IDS.get(component["id"], (component["id"],))
                assert found.component in expected, name
                groups = said.groupdict()
                assert found.version == groups["version"] + (groups.get("local") or ""), name
    assert names == 189


@pytest.mark.parametrize(
    ("name", "remark"),
    [
        ("Ascend-cann-toolkit_8.5.0_linux-aarch64 (1).run", "a copy of Ascend-cann-toolkit_8.5.0_linux-aarch64.run"),
        ("Ascend-hdk-910b-npu_25.5.0_linux-aarch64 (12).zip", "a copy of"),
        ("torch-2.7.1%2Bcpu-cp310-cp310-manylinux_2_28_x86_64.whl", "changed by a download"),
    ],
)
def test_what_a_download_did_to_a_name_is_said(name: str, remark: str) -> None:
    found = parse_name(name)
    assert found is not None
    assert remark in found.remarks[0]


def test_the_wheel_says_python_abi_and_the_oldest_glibc() -> None:
    found = parse_name("torch-2.5.1-cp312-cp312-manylinux_2_17_aarch64.manylinux2014_aarch64.whl")
    assert found is not None
    assert (found.python, found.abi, found.glibc) == ("3.12", "cp312", "2.17")


@pytest.mark.parametrize("name", ["", ".run", "README.md", "x" * 300 + ".run", "install.sh", "_._-._.whl", "a-1.rpm"])
def test_other_names_are_no_packages(name: str) -> None:
    assert parse_name(name) is None


def test_a_long_hostile_name_takes_no_long_time() -> None:
    """Each of these would make a pattern with nested repetition try every division of the text."""
    for name in (
        "Ascend-hdk-910b-npu-driver_" + "1.1-" * 50 + "!.run",
        "ascend-" + "a-" * 110 + "!.run",
        "Ascend-cann_1_a" + "." * 200 + "!.run",
        "Ascend-cann-toolkit_1_" + "a-a_" * 50 + "!.run",
        "a100-" + "1-" * 110 + "!.run",
        "a" + "-1" * 110 + "!.conda",
        "a-" + "1-" * 110 + "!.whl",
    ):
        assert parse_name(name) is None
