"""The names of CANN installations and packages."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from npudoctor import knowledge
from npudoctor.facts.cann.toolkits import CannInstall
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.system.platform import Platform
from npudoctor.facts.versions import CannVersion
from npudoctor.sdk import ParseError

from .messages import cann as messages

FIRMWARE = "./Ascend-hdk-<chip>-npu-firmware_<version>.run"
DRIVER = "./Ascend-hdk-<chip>-npu-driver_<version>_linux-<arch>.run"
PLAN = f"npudoctor setup --packages FOLDER --dry-run  # {messages.OF_THE_PACKAGES.text()}"
INSTALL_CANN = f"npudoctor fix cann.install --packages FOLDER  # {messages.OF_THE_PACKAGES.text()}"


def for_this_node(package: str, cards: Chips | None, platform: Platform | None) -> str:
    """FIRMWARE or DRIVER with the chip and the architecture of this node, where both are known."""
    names = knowledge.install().packages_of(cards.family) if cards is not None and cards.family is not None else None
    if names is not None:
        package = package.replace("Ascend-hdk-<chip>", names.hdk[0])
    if platform is not None and platform.machine:
        package = package.replace("<arch>", platform.machine.replace("x86_64", "x86-64"))
    return package


def install_commands(driver: str, firmware: str) -> tuple[str, ...]:
    """The plan of a first installation of driver and firmware, and the vendor's commands."""
    return (
        PLAN,
        "getent passwd HwHiAiUser || useradd -m -U HwHiAiUser",
        explain_command(f"{driver} --full --install-for-all"),
        explain_command(f"{firmware} --full"),
        "reboot",
    )


def upgrade_commands(cards: Chips | None, platform: Platform | None, driver: str | None = None) -> tuple[str, ...]:
    """The plan of an upgrade of driver and firmware, and the vendor's commands; `driver` is its release."""
    named = DRIVER.replace("<version>", driver) if driver is not None and ".X" not in driver else DRIVER
    packages = (for_this_node(package, cards, platform) for package in (FIRMWARE, named))
    return (PLAN, *(explain_command(f"{package} --upgrade") for package in packages), "reboot")


def explain_command(command: str) -> str:
    """A command with a package whose name is not wholly known, with a comment that says what its places stand for."""
    places = list(dict.fromkeys(re.findall(r"<\w+>", command)))
    return f"{command}  # {messages.AS_IN_THE_PACKAGE.text(places=places)}" if places else command


def title(install: CannInstall) -> str:
    """An installation by version and directory: CANN 8.2.RC1 in /usr/local/Ascend/ascend-toolkit/8.2.RC1."""
    if install.stated is None:
        return messages.CANN_OF_UNKNOWN_VERSION.text(root=install.root)
    return messages.CANN_IN.text(version=install.stated, root=install.root)


def package_tag(cards: Chips | None) -> str | None:
    """The chip of these NPUs as package names spell it; None where it is unknown or has no package."""
    family = knowledge.hardware().family(cards.family or "") if cards is not None else None
    return family.package_tag if family is not None else None


def install_cann_commands(version: str, tag: str | None, *further: str) -> Iterator[str]:
    """The commands that install toolkit, operators and further packages of a CANN."""
    for package in ("Ascend-cann-toolkit", operators_package(version, tag), *further):
        yield explain_command(f"./{package}_{version}_linux-$(arch).run --install")


def operators_package(version: str, tag: str | None) -> str:
    """The name of the operator package: kernels up to 8.3, ops from 8.5 on."""
    chip = tag or "<chip>"
    with contextlib.suppress(ParseError):
        if CannVersion.parse(version).release < (8, 5):
            return "Atlas-A3-cann-kernels" if chip == "a3" else f"Ascend-cann-kernels-{chip}"
    return f"Ascend-cann-{chip}-ops"
