"""Version files as people and installers leave them, the ranges in them, and facts as JSON."""

from dataclasses import dataclass
from enum import Enum

import pytest

from npudoctor.facts.driver.version_files import (
    parse_cann_package,
    parse_driver,
    parse_entries,
    parse_firmware,
    parse_ranges,
    parse_version_cfg,
)
from npudoctor.facts.parsers import KINDS, to_json
from npudoctor.facts.versions import CannVersion, DriverVersion, FirmwareVersion
from npudoctor.host import ParseError


def test_spelling_of_a_version_file_does_not_matter() -> None:
    text = (
        "\ufeff# comment\r\n\r\nPackage_Name : Ascend-cann-toolkit \r\n VERSION=8.0.0\r\nArch=NA\r\nversion=9.9.9\r\n"
    )
    package = parse_cann_package(text)
    assert (package.package, package.version, package.arch, package.path) == (
        "Ascend-cann-toolkit",
        "8.0.0",
        None,
        None,
    )


def test_a_file_without_its_keys_is_refused() -> None:
    with pytest.raises(ParseError, match="the file has no version and no package_version"):
        parse_driver("Install_Path=/usr/local/Ascend\n")


def test_the_toolkit_decides_what_is_in_force() -> None:
    text = (
        "aoe_running_version=[1.2:7.0.0]\nruntime_running_version=[1.3:8.0.RC1]\nToolkit_Running_Version=[1.4:8.0.0]\n"
    )
    assert (parse_version_cfg(text).running, parse_version_cfg(text).installed) == ("8.0.0", ())
    assert parse_version_cfg("runtime_installed_version=[1.2:7.0.0][1.3:8.0.RC1]\n").running is None


def test_a_driver_names_the_firmware_that_it_accepts() -> None:
    (accepted,) = parse_driver("Version=23.0.7\ncompatible_version_fw=[7.0.0,7.1.99]\n").accepted_firmware
    inside, outside = ["7.0.0.0.220", "7.1.0.11.220", "7.1.98.9.242"], ["6.4.0.5.220", "7.2.0.1.220", "10.0.0.0.205"]
    assert all(accepted.contains(FirmwareVersion.parse(text)) for text in inside)
    assert not any(accepted.contains(FirmwareVersion.parse(text)) for text in outside)


def test_a_firmware_names_the_drivers_that_it_accepts_and_their_patches() -> None:
    text = "Version=7.1.0.11.220\ncompatible_version_drv=[23.0.rc3,23.0.rc3.],[24.1.0,24.1.0]\n"
    accepted = parse_ranges(parse_firmware(text).compatible_version_drv, DriverVersion)

    def is_accepted(version: str) -> bool:
        return any(one.contains(DriverVersion.parse(version)) for one in accepted)

    assert [is_accepted(version) for version in ("23.0.rc3", "23.0.RC3.3", "24.1.0")] == [True] * 3
    assert [is_accepted(version) for version in ("23.0.rc2.3", "23.0.0", "24.1.0.3", "24.1.rc1")] == [False] * 4


def test_no_range_accepts_nothing_and_a_wrong_one_is_refused() -> None:
    assert parse_ranges(None, FirmwareVersion) == parse_ranges("[V100R001C29]", FirmwareVersion) == ()
    with pytest.raises(ParseError):
        parse_ranges("[7.0.0,latest]", FirmwareVersion)


def test_entries_need_a_key() -> None:
    with pytest.raises(ParseError, match="not a file of keys and values"):
        parse_entries("just words\n= 3\n")


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Fact:
    versions: tuple[CannVersion, ...]
    colours: frozenset[Colour]
    by_id: dict[int, object]
    nothing: None = None


def test_facts_become_json() -> None:
    fact = Fact((CannVersion.parse("8.0.rc1"),), frozenset({Colour.RED}), {3: [True, 1.5, 2j]})
    assert to_json(fact) == {
        "versions": ["8.0.RC1"],
        "colours": ["red"],
        "by_id": {"3": [True, 1.5, "2j"]},
        "nothing": None,
    }


def test_a_text_without_a_failure_is_no_failure() -> None:
    with pytest.raises(ParseError, match="no failure message"):
        KINDS["npu-smi-error"]("all is well\n")
