"""Which kernel boots next, and which of the installed kernels have the modules of the Ascend driver."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from npudoctor.facts.node.container import Container
from npudoctor.facts.system.platform import Platform
from npudoctor.records import record
from npudoctor.sdk import Because, Host, NotApplicable, Unavailable, probe

BOOT = "/boot"
MODULES = "/lib/modules"
GRUB_ENVIRONMENTS = ("/boot/grub2/grubenv", "/boot/grub/grubenv", "/boot/efi/EFI/openEuler/grubenv")
GRUB_MENUS = ("/boot/grub2/grub.cfg", "/boot/grub/grub.cfg", "/boot/efi/EFI/openEuler/grub.cfg")
DKMS = "/var/lib/dkms"
PLACES = ("updates", "updates/dkms", "extra", "extra/davinci", "weak-updates", "kernel/drivers/davinci")
"""Where, below the folder of a kernel, installers put modules that are not the kernel's own."""

_IMAGE = r"(?:vmlinuz|vmlinux|Image)-(\S+)"
_NEVER_BOOTED = r"rescue|kdump|debug"
_OF_THE_DRIVER = r"drv_\w+\.ko(?:\.(?:xz|gz|zst))?"


@record(frozen=True, kw_only=True)
class NextBoot:
    """The kernel that boots next, by its release, and what says so; `running` is the present one.

    `with_driver` are the installed kernels that have modules of the Ascend driver, `without_driver` the others; `dkms`
    tells whether the driver builds them by itself for a new kernel.
    """

    release: str
    source: str
    running: str
    with_driver: tuple[str, ...]
    dkms: bool
    without_driver: tuple[str, ...] = ()


def parse_environment(text: str) -> dict[str, str]:
    """The variables of a grubenv."""
    pairs = (line.partition("=") for line in text.splitlines() if not line.startswith("#"))
    return {name.strip(): value.strip() for name, equals, value in pairs if equals}


def parse_menu(text: str) -> tuple[tuple[str, str], ...]:
    """The titles of a grub.cfg's entries with the kernels that they boot, in order."""
    found: list[tuple[str, str]] = []
    title = ""
    for line in text.splitlines():
        if entry := re.match(r"\s*menuentry\s+(?:'([^']*)'|\"([^\"]*)\")", line):
            title = entry[1] or entry[2] or ""
        elif kernel := re.match(rf"\s*linux(?:16|efi)?\s+\S*{_IMAGE}", line):
            found.append((title, kernel[1]))
    return tuple(found)


def reduce_boot_file(path: str, text: str) -> str | None:
    """What is read of a boot loader's file, and no more: menus may hold passwords. None for any other file."""
    if path in GRUB_ENVIRONMENTS:
        return f"saved_entry={parse_environment(text).get('saved_entry', '')}\n"
    if path in GRUB_MENUS:
        return "".join(f'menuentry "{title}" {{\nlinux /vmlinuz-{kernel}\n}}\n' for title, kernel in parse_menu(text))
    return None


def newest(releases: tuple[str, ...]) -> str | None:
    """The kernel that distributions boot by default: the one with the highest version."""
    wanted = [release for release in releases if not re.search(_NEVER_BOOTED, release)]
    return max(wanted, key=lambda release: [int(part) for part in re.findall(r"[0-9]+", release)], default=None)


@probe
def next_boot(host: Host, platform: Platform, container: Container | None) -> NextBoot:
    """From grub's environment and menu, else the newest kernel in /boot."""
    if container is not None:
        raise NotApplicable("a container uses the kernel of its host")
    if platform.kernel is None:
        raise Unavailable("running kernel unknown", because=Because.NOT_RECORDED)
    release, source = _default_entry(host)
    kernels = dict.fromkeys((release, platform.kernel, *_bootable_kernels(host)))
    with_driver = tuple(kernel for kernel in kernels if _has_driver(host, kernel))
    return NextBoot(
        release=release,
        source=source,
        running=platform.kernel,
        with_driver=with_driver,
        dkms=_has_dkms(host),
        without_driver=tuple(kernel for kernel in kernels if kernel not in with_driver),
    )


def _default_entry(host: Host) -> tuple[str, str]:
    images = tuple(found[1] for name in host.list_dir(BOOT) if (found := re.fullmatch(_IMAGE, name)))
    refused: Unavailable | None = None
    saved, where = "", ""
    for path in GRUB_ENVIRONMENTS:
        try:
            saved, where = parse_environment(host.read(path)).get("saved_entry", ""), path
            break
        except Unavailable as why:
            refused = why if why.because is Because.NO_RIGHT else refused
    if saved and (named := next((image for image in sorted(images, key=len, reverse=True) if image in saved), None)):
        return named, f"saved_entry in {where}"
    for path in GRUB_MENUS:
        try:
            entries = parse_menu(host.read(path))
        except Unavailable as why:
            refused = why if why.because is Because.NO_RIGHT else refused
            continue
        by_title = [kernel for title, kernel in entries if saved and (title == saved or saved.endswith(f">{title}"))]
        number = int(saved) if saved.isdecimal() and int(saved) < len(entries) else 0
        if by_title or entries:
            return (by_title or [entries[number][1]])[0], path
    if refused is not None:
        raise Unavailable(f"next kernel unknown: {refused.reason}", because=Because.NO_RIGHT)
    best = newest(images)
    if best is None:
        raise Unavailable(f"no kernel found in {BOOT}")
    return best, f"the newest kernel in {BOOT}"


def _bootable_kernels(host: Host) -> tuple[str, ...]:
    """The kernels that can be booted and have modules, the newest first."""
    with contextlib.suppress(Unavailable):
        images = {found[1] for name in host.list_dir(BOOT) if (found := re.fullmatch(_IMAGE, name))}
        names = [name for name in host.list_dir(MODULES) if name in images and not re.search(_NEVER_BOOTED, name)]
        return tuple(sorted(names, key=lambda name: [int(part) for part in re.findall(r"[0-9]+", name)], reverse=True))
    return ()


def _has_driver(host: Host, kernel: str) -> bool:
    return any(re.fullmatch(_OF_THE_DRIVER, name) for name in _names(host, f"{MODULES}/{kernel}"))


def _names(host: Host, folder: str) -> Iterator[str]:
    for place in PLACES:
        with contextlib.suppress(Unavailable):
            yield from host.list_dir(f"{folder}/{place}")


def _has_dkms(host: Host) -> bool:
    with contextlib.suppress(Unavailable):
        return any(re.match(r"davinci|ascend|drv_", name, re.IGNORECASE) for name in host.list_dir(DKMS))
    return False
