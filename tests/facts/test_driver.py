"""Driver, firmware and modules."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npudoctor.facts.by_chip import PerChip
from npudoctor.facts.driver.firmware_match import FirmwareMatch, firmware_match
from npudoctor.facts.driver.install import (
    DriverInstall,
    LoadedModules,
    driver_install,
    firmware_install,
    install_record,
    loaded_modules,
    parse_modules,
)
from npudoctor.facts.driver.version_files import parse_driver
from npudoctor.facts.npu_smi import Board
from npudoctor.host import Completed
from npudoctor.host.recording.canned import FakeHost
from npudoctor.host.simulated.tree import Overlay
from npudoctor.sdk import Because, ParseError, Unavailable, User

RECORD = "UserName=HwHiAiUser\nDriver_Install_Path_Param=/opt/hdk\nFirmware_Install_Path_Param=/opt/hdk\n"
VERSION = "Version=25.2.0\ncompatible_version_fw=[7.5.0,7.8.99]\n"


def driver(host: FakeHost) -> DriverInstall:
    record = None
    if host.exists("/etc/ascend_install.info"):
        record = install_record.function(host)
    found = driver_install.function(host, record)
    assert isinstance(found, DriverInstall)
    return found


def test_the_recorded_prefix_is_where_the_driver_lies() -> None:
    files = {
        "/etc/ascend_install.info": RECORD,
        "/opt/hdk/driver/version.info": VERSION,
        "/opt/hdk/driver/lib64/x.so": "",
    }
    found = driver(FakeHost(files=files))
    assert (found.prefix, found.libraries, found.is_there) == ("/opt/hdk", True, True)
    assert found.file is not None and found.file.version == "25.2.0"


def test_without_any_file_no_driver_is_there() -> None:
    found = driver(FakeHost())
    assert (found.is_there, found.path) == (False, "/usr/local/Ascend/driver/version.info")


def test_a_file_that_may_not_be_read_is_not_a_missing_driver() -> None:
    path = "/usr/local/Ascend/driver/version.info"
    host = FakeHost(
        files={path: VERSION}, stats={path: Overlay(mode=0o600)}, user=User(name="dev", uid=9, gid=9, gids=(9,))
    )
    with pytest.raises(Unavailable) as caught:
        driver(host)
    assert caught.value.because is Because.NO_RIGHT


def test_firmware_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(Unavailable):
        firmware_install.function(FakeHost(), None)


PROC = "drv_pcie_host 212992 9 - Live 0x0 (OE)\nnvme 57344 4 - Live 0x0\nasdrv_svm 1 0 - Live 0x0\ndrm 1 0 - Live 0x0\n"


def test_the_modules_of_the_driver_are_told_from_others_with_their_versions() -> None:
    files = {"/proc/modules": PROC, "/sys/module/drv_pcie_host/version": "25.2.0\n"}
    found = loaded_modules.function(FakeHost(files=files))
    assert isinstance(found, LoadedModules)
    assert found.ours == ("asdrv_svm", "drv_pcie_host")
    assert found.versions == {"drv_pcie_host": "25.2.0"}


def test_lsmod_stands_in_for_the_file() -> None:
    listed = "Module                  Size  Used by\ndrv_pcie_host          212992  9\n"
    assert loaded_modules.function(FakeHost(commands={"lsmod": listed})).ours == ("drv_pcie_host",)
    for failing in ({}, {"lsmod": Completed(returncode=1)}):
        with pytest.raises(Unavailable, match="/proc/modules"):
            loaded_modules.function(FakeHost(commands=failing))


@given(st.text(max_size=80))
def test_other_text_is_refused(text: str) -> None:
    try:
        names = parse_modules(text)
    except ParseError:
        return
    assert all(name in text for name in names)


def match(file: str | None, *pages: Board, **more: Any) -> FirmwareMatch:
    install = DriverInstall(prefix="/p", path="/p/driver/version.info", file=parse_driver(file) if file else None)
    boards = PerChip({f"npu:{page.npu_id or 0}": page for page in pages}) if pages else None
    found = firmware_match.function(install, more.get("firmware"), boards)
    assert isinstance(found, FirmwareMatch)
    return found


def test_boards_say_more_than_files() -> None:
    found = match(VERSION, Board(npu_id=3, compatibility="OK", firmware_version="7.8.0.5.216"))
    assert found.flags == {3: "OK"}
    assert all(found.accepts(version) for version in found.versions.values())


def test_only_the_first_three_numbers_of_a_range_count() -> None:
    versions = match(
        VERSION, *(Board(npu_id=n, firmware_version=v) for n, v in enumerate(("7.8.99.9.1", "7.9.0.1.1", "7.4.9.9.9")))
    )
    assert [versions.accepts(version) for version in versions.versions.values()] == [True, False, False]


@pytest.mark.parametrize("file", [None, "Version=22.0.2\n", "Version=1\ncompatible_version_fw=[a,b]\n"])
def test_without_two_to_compare_it_is_unavailable(file: str | None) -> None:
    with pytest.raises(Unavailable):
        match(file)
