"""Which kernel boots next, by what boot loaders write."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npudoctor.facts.driver.next_boot import (
    NextBoot,
    newest,
    next_boot,
    parse_environment,
    parse_menu,
    reduce_boot_file,
)
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.container_mounts import container_mounts, parse_mounts
from npudoctor.facts.system.platform import Platform
from npudoctor.host.recording.canned import FakeHost
from npudoctor.host.simulated.tree import Overlay
from npudoctor.sdk import Because, NotApplicable, Unavailable, User

OLD, NEW = "5.15.0-91-generic", "5.15.0-113-generic"
RUNNING = Platform(machine="x86_64", kernel=OLD)
MODULE = "updates/dkms/drv_davinci_intf_host.ko.zst"
BASE = {f"/boot/vmlinuz-{OLD}": "", f"/boot/vmlinuz-{NEW}": "", f"/lib/modules/{OLD}/{MODULE}": ""}
MENU = f"""\
menuentry 'Ubuntu' --class ubuntu {{
\tlinux\t/boot/vmlinuz-{NEW} root=UUID=1 ro
}}
submenu 'Advanced options for Ubuntu' {{
\tmenuentry 'Ubuntu, with Linux {OLD}' --class ubuntu {{
\t\tlinux\t/boot/vmlinuz-{OLD} root=UUID=1 ro
\t}}
}}
"""


def ask(files: dict[str, str], **more: Any) -> NextBoot:
    found = next_boot.function(FakeHost(files={**BASE, **files}, **more), RUNNING, None)
    assert isinstance(found, NextBoot)
    return found


def test_the_newest_kernel_boots_where_nothing_says_otherwise() -> None:
    found = ask({"/boot/vmlinuz-0-rescue-99999": ""})
    assert (found.release, found.source, found.with_driver) == (NEW, "the newest kernel in /boot", (OLD,))


def test_the_menu_s_first_entry_boots_unless_one_was_saved() -> None:
    assert ask({"/boot/grub/grub.cfg": MENU}).release == NEW
    saved = f"saved_entry=Advanced options for Ubuntu>Ubuntu, with Linux {OLD}\n"
    assert ask({"/boot/grub/grub.cfg": MENU, "/boot/grub/grubenv": f"# GRUB\n{saved}####"}).release == OLD
    assert ask({"/boot/grub/grub.cfg": MENU, "/boot/grub/grubenv": "saved_entry=1\n"}).release == OLD


def test_an_entry_of_the_boot_loader_specification_names_its_kernel() -> None:
    assert ask({"/boot/grub2/grubenv": f"saved_entry=6c1f0f-{OLD}\n"}).release == OLD


def test_a_menu_that_this_user_may_not_read_is_no_guess() -> None:
    person = User(name="ada", uid=1000, gid=1000, gids=(1000,), groups=("ada",))
    stats = {"/boot/grub/grub.cfg": Overlay(mode=0o600)}
    with pytest.raises(Unavailable) as caught:
        ask({"/boot/grub/grub.cfg": MENU}, user=person, stats=stats)
    assert caught.value.because is Because.NO_RIGHT


def test_versions_count_by_their_numbers() -> None:
    assert newest(("5.10.0-60", "5.10.0-216", "4.19.90", "5.10.0-216+debug")) == "5.10.0-216"
    assert newest(("0-rescue-1",)) is None


def test_of_a_boot_loader_s_files_only_what_is_read_is_kept() -> None:
    secret = "password_pbkdf2 root grub.pbkdf2.sha512.10000.C0FFEE\n" + MENU
    kept = reduce_boot_file("/boot/grub/grub.cfg", secret)
    assert kept is not None and "C0FFEE" not in kept and "UUID" not in kept
    assert parse_menu(kept) == parse_menu(secret)
    environment = reduce_boot_file("/boot/grub/grubenv", f"# GRUB\nsaved_entry=1\nkernelopts=token=x\n{'#' * 40}")
    assert environment == "saved_entry=1\n"
    assert reduce_boot_file("/etc/hosts", "127.0.0.1 localhost") is None


@given(st.text(alphabet="menutry'\"{}linux /vz-5.10\n\t=#>", max_size=200))
def test_no_text_is_too_odd(text: str) -> None:
    assert all(kernel for _, kernel in parse_menu(text))
    assert isinstance(parse_environment(text), dict)
    assert isinstance(parse_mounts(text), dict)


def test_mount_points_are_read_with_their_sources() -> None:
    text = (
        "612 580 0:71 / / rw - overlay overlay rw\n"
        "640 612 253:0 /home/a\\040b/lib64 /usr/local/Ascend/driver/lib64 ro,relatime - ext4 /dev/sda1 rw\n"
        "cut off"
    )
    assert parse_mounts(text) == {"/": "/", "/usr/local/Ascend/driver/lib64": "/home/a b/lib64"}


def test_outside_a_container_nothing_was_mounted() -> None:
    with pytest.raises(NotApplicable):
        container_mounts.function(FakeHost(), None)
    with pytest.raises(NotApplicable):
        next_boot.function(FakeHost(), RUNNING, Container(runtime="docker"))
