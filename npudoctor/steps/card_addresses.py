"""A step that sets addresses of NPU network ports by hccn_tool and in /etc/hccn.conf together, and reads them back."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from npudoctor.host import Host, MutableHost
from npudoctor.records import record
from npudoctor.steps import Obstacle, Step, StepFailed, messages, run_changing
from npudoctor.steps.files import RemoveFile, WriteFile

CONF = "/etc/hccn.conf"
KEYS = ("address", "netmask", "gateway", "netdetect")
"""The settings of a device in /etc/hccn.conf, in the order of a row of `CardAddresses.cards`."""

_ANSWERS = {
    "ip": {"address": re.compile(r"ipaddr\s*:\s*([\d.]+)"), "netmask": re.compile(r"netmask\s*:\s*([\d.]+)")},
    "gateway": {"gateway": re.compile(r"default gateway\s*:\s*([\d.]+)")},
    "netdetect": {"netdetect": re.compile(r"netdetect address\s*:\s*([\d.]+)")},
}
_SETTING = r"\s*([A-Za-z][A-Za-z0-9]*_\d{1,4})\s*=\s*(.*?)\s*"


@record(frozen=True, kw_only=True)
class CardAddresses:
    """Set what differs. `cards` are rows of device, address, netmask, gateway and detect address, each empty where it
    is left as it is. `content` is /etc/hccn.conf then, `replaces` before; None: no such file. `expects` are
    device and address as they should be before: it is refused where a device has another address by then."""

    cards: tuple[tuple[str, str, str, str, str], ...]
    content: str | None
    replaces: str | None
    expects: tuple[tuple[str, str], ...] = ()

    @property
    def path(self) -> str:
        """The file."""
        return CONF

    @property
    def commands(self) -> tuple[tuple[str, ...], ...]:
        """hccn_tool's commands, in their order."""
        found: list[tuple[str, ...]] = []
        for device, address, netmask, gateway, detect in self.cards:
            front = ("hccn_tool", "-i", device)
            found += [(*front, "-ip", "-s", "address", address, "netmask", netmask)] if address else []
            found += [(*front, "-gateway", "-s", "gateway", gateway)] if gateway else []
            found += [(*front, "-netdetect", "-s", "address", detect)] if detect else []
        return tuple(found)

    @property
    def _file(self) -> Step:
        return RemoveFile(CONF) if self.content is None else WriteFile(CONF, self.content)

    def preview(self, host: Host) -> str:
        """The file, and the commands."""
        shown = "" if self._file.holds(host) else self._file.preview(host)
        return shown + "".join(messages.RUNS.text(command=shlex.join(argv)) for argv in self.commands)

    def inverse(self, host: Host) -> Step:
        """The values that the NPUs and the file have; an NPU that has no address yet keeps the new one."""
        now = {card[0]: live(host, card[0]) for card in self.cards}
        rows = [
            (device, said["address"], said["netmask"], said["gateway"], said["netdetect"])
            for device, said in now.items()
        ]
        expects = tuple(card[:2] for card in self.cards)
        return CardAddresses(cards=tuple(rows), content=self.replaces, replaces=self.content, expects=expects)

    def holds(self, host: Host) -> bool:
        """Whether file and NPUs have these values."""
        return self._file.holds(host) and not self._first_difference(host)

    def obstacle(self, host: Host) -> Obstacle | None:
        """Only root sets addresses, with the driver's tool."""
        if host.user.uid != 0:
            return Obstacle(messages.ADDRESSES_BY_ROOT.text(), root=True)
        if host.which("hccn_tool") is None:
            return Obstacle(messages.COMMAND_NOT_FOUND.text(command="hccn_tool"))
        for (device, address), card in zip(self.expects, self.cards, strict=False):
            if live(host, device)["address"] not in (address, card[1]):
                return Obstacle(messages.ADDRESS_CHANGED.text(device=device))
        return self._file.obstacle(host)

    def apply(self, host: MutableHost) -> None:
        """Set, write, read back; of a file that has changed since, only the lines of these devices change."""
        before = host.read(CONF) if host.exists(CONF) else None
        devices = [card[0] for card in self.cards]
        target, none = self.content, dict.fromkeys(settings("", devices), "")
        if with_settings(before or "", none) != with_settings(self.replaces or "", none):
            target = with_settings(before or "", settings(self.content or "", devices))
        for argv in self.commands:
            run_changing(host, argv, 60.0)
        written = RemoveFile(CONF) if target is None else WriteFile(CONF, target)
        if not written.holds(host.fresh()):
            written.apply(host)
        if wrong := self._first_difference(host.fresh()):
            raise StepFailed(messages.ADDRESS_NOT_SET.text(device=wrong[0], key=wrong[1], value=wrong[2]))

    def _first_difference(self, host: Host) -> tuple[str, str, str] | None:
        """Device, setting and wanted value of the first that the NPU does not have."""
        for device, *values in self.cards:
            now = live(host, device)
            for key, value in zip(KEYS, values, strict=True):
                if value and now[key] != value:
                    return device, key, value
        return None


def live(host: Host, device: str) -> dict[str, str]:
    """What an NPU has of each setting, empty where it has none; raises StepFailed where hccn_tool does not answer."""
    found = dict.fromkeys(KEYS, "")
    for question, keys in _ANSWERS.items():
        done = host.run(["hccn_tool", "-i", device, f"-{question}", "-g"])
        if done.timed_out or (done.returncode != 0 and question == "ip"):
            raise StepFailed(messages.ADDRESS_UNKNOWN.text(device=device))
        for key, pattern in keys.items():
            answer = pattern.search(done.stdout)
            found[key] = answer[1] if answer and answer[1] != "0.0.0.0" else ""  # noqa: S104 - says that none is set
    return found


def settings(text: str, devices: Sequence[str]) -> dict[str, str]:
    """What a text of /etc/hccn.conf sets for these devices, by `address_0` and so on; empty where it does not."""
    found = {f"{key}_{device}": "" for device in devices for key in KEYS}
    rows = (match.groups() for line in text.splitlines() if (match := re.fullmatch(_SETTING, line)))
    return found | {name: value for name, value in rows if name in found}


def with_settings(text: str, wanted: Mapping[str, str]) -> str:
    """A text of /etc/hccn.conf with these settings, each in its place; an empty one is removed, the rest stays."""
    lines, seen = [], set()
    for line in text.splitlines(keepends=True):
        match = re.fullmatch(_SETTING, line)
        if match is None or match[1] not in wanted:
            lines.append(line)
            continue
        seen.add(match[1])
        if value := wanted[match[1]]:
            lines.append(line if match[2] == value else f"{match[1]}={value}\n")
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    return "".join([*lines, *(f"{name}={value}\n" for name, value in wanted.items() if value and name not in seen)])
