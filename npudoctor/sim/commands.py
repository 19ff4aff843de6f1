"""The commands of a simulated node: which there are, and what each prints, rendered when it is run."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping

from npudoctor.host import Completed
from npudoctor.host.simulated.tree import FileTree
from npudoctor.sim import driver, hccn, npu_smi, npu_smi_950, npu_smi_pages, smoke
from npudoctor.sim.node import Node
from npudoctor.sim.target import PROBES, Target

SECONDS = {"npu-smi": 0.6, "hccn_tool": 0.05}
"""What a call of a tool takes, as a recording of it says."""

NEVER_S = 20.0
"""How long a recording says that it waited for a tool that hangs."""

SMOKE = "npudoctor smoke --format jsonl "
"""npudoctor's own smoke run, which has no NPUs to train on here."""

_JOURNAL = "kernel: devdrv_device_driver: module verification: loaded"


class Commands(Mapping[str, Completed]):
    """Answers by command key. A tool that is there answers every question; the keys are those that npudoctor asks."""

    def __init__(self, node: Node, tree: FileTree, target: Target) -> None:
        self._node = node
        self._tree = tree
        self._target = target

    def __getitem__(self, key: str) -> Completed:
        tool, *words = key.split(" ")
        if said := self._node.scenario.commands.get(key):
            return Completed(
                returncode=None if said.timed_out else said.returncode,
                stdout=said.stdout,
                stderr=said.stderr,
                seconds=NEVER_S if said.timed_out else 0.1,
                timed_out=said.timed_out,
            )
        if key.startswith(SMOKE):
            return smoke.answer(self._node, self._target.import_error(self._tree))
        answer = self._answer(tool, words) if tool in self.tools() else None
        if answer is None:
            raise KeyError(key)
        return answer

    def __iter__(self) -> Iterator[str]:
        tools = self.tools()
        own = (key for tool in tools for key in self._keys(tool))
        return iter(dict.fromkeys([*own, *self._node.scenario.commands]))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def tools(self) -> tuple[str, ...]:
        """The tools that this node has."""
        inside = self._node.scenario.container is not None
        there = [tool for tool, path in _VENDOR.items() if _is_executable(self._tree, path)]
        there += ["lsmod", "modinfo", *(() if inside else _HOST_TOOLS)]
        return (*there, "python") if _is_executable(self._tree, self._target.executable) else tuple(there)

    def _keys(self, tool: str) -> Iterator[str]:
        if tool == "npu-smi":
            yield from _npu_smi_keys(self._node)
        elif tool == "hccn_tool":
            numbers = [chip.phy_id for chip in self._node.chips_at("device-node")]
            yield from (f"hccn_tool -i {number} -{what} -g" for number in numbers for what in hccn.QUERIES)
        elif tool == "modinfo":
            names = driver.MODULES if self._node.has_driver else ()
            for name in names:
                yield from (f"modinfo -F version {name}", f"modinfo -F srcversion {name}", f"modinfo {name}")
        elif tool == "python":
            yield from (f"python {probe}" for probe in PROBES)
        else:
            yield {"lsmod": "lsmod", **_HOST_TOOLS}[tool]

    def _answer(self, tool: str, words: list[str]) -> Completed | None:
        if tool == "npu-smi":
            return self._npu_smi(words)
        if tool == "hccn_tool":
            return self._hccn_tool(words)
        if tool == "python":
            return self._target.answer(" ".join(words), self._tree)
        if tool == "modinfo":
            field = words[1] if len(words) == 3 and words[0] == "-F" else ""
            stdout, stderr, status = driver.modinfo(self._node, field, words[-1] if words else "")
            return Completed(returncode=status, stdout=stdout, stderr=stderr, seconds=0.01)
        if tool == "lsmod":
            rows = (f"{name:<22} {size:>8}  {users}\n" for name, size, users in driver.modules(self._node))
            return Completed(
                returncode=0, stdout="Module                  Size  Used by\n" + "".join(rows), seconds=0.01
            )
        return _HOST_ANSWERS[tool](self._node) if " ".join([tool, *words]) == _HOST_TOOLS[tool] else None

    def _npu_smi(self, words: list[str]) -> Completed:
        node, said = self._node, self._node.scenario.driver
        if said.fault == "hang":
            return Completed(returncode=None, seconds=NEVER_S, timed_out=True)
        if said.fault == "crash":
            return Completed(returncode=-signal.SIGSEGV, seconds=0.2)
        if failure := self._npu_smi_failure():
            return _as_completed(failure, "npu-smi")
        seconds = said.slow_s if said.fault == "slow" else SECONDS["npu-smi"]
        text = _npu_smi_text(node, words)
        return _as_completed((text, 0) if isinstance(text, str) else text, "npu-smi", seconds)

    def _npu_smi_failure(self) -> tuple[str, int] | None:
        """Why npu-smi cannot reach an NPU: a fault of the scenario, or no device node that this user may open."""
        fault = self._node.scenario.driver.fault
        if fault == "device-used":
            return npu_smi_pages.DEVICE_USED
        if fault == "board-type":
            return npu_smi_pages.BOARD_TYPE
        manager = "/dev/davinci_manager"
        reachable = self._tree.exists(manager) and {"r", "w"} <= set(self._tree.stat(manager).access)
        return (
            None if reachable and self._node.chips_at("npu-smi") and fault != "no-device" else npu_smi_pages.NO_DEVICE
        )

    def _hccn_tool(self, words: list[str]) -> Completed:
        if self._node.user.uid and not self._node.scenario.driver.hccn_for_all:
            return _as_completed(hccn.FAILED, "hccn_tool")
        if len(words) == 4 and words[0] == "-i" and words[1].isdecimal() and words[3] == "-g":
            return _as_completed(hccn.query(self._node, int(words[1]), words[2].removeprefix("-")), "hccn_tool")
        return _as_completed(hccn.FAILED, "hccn_tool")


_VENDOR = {"npu-smi": "/usr/local/bin/npu-smi", "hccn_tool": "/usr/local/Ascend/driver/tools/hccn_tool"}
_HOST_TOOLS = {
    "nft": "nft list ruleset",
    "iptables": "iptables -S",
    "firewall-cmd": "firewall-cmd --state",
    "timedatectl": "timedatectl show",
    "journalctl": "journalctl -k --since -7d",
    "systemd-detect-virt": "systemd-detect-virt",
}
_HOST_ANSWERS: dict[str, Callable[[Node], Completed]] = {
    "nft": lambda node: _as_root(node, ""),
    "iptables": lambda node: _as_root(node, "-P INPUT ACCEPT\n-P FORWARD ACCEPT\n-P OUTPUT ACCEPT\n"),
    "firewall-cmd": lambda _: Completed(returncode=252, stderr="not running\n", seconds=0.03),
    "timedatectl": lambda _: Completed(
        returncode=0, stdout="Timezone=Asia/Shanghai\nLocalRTC=no\nCanNTP=yes\nNTP=yes\nNTPSynchronized=yes\n"
    ),
    "journalctl": lambda node: _journal(node),
    "systemd-detect-virt": lambda _: Completed(returncode=1, stdout="none\n"),
}


def _journal(node: Node) -> Completed:
    if node.user.uid and not {"adm", "systemd-journal"} & set(node.user.groups):
        hidden = "No journal files were opened due to insufficient permissions.\n"
        return Completed(returncode=1, stderr=hidden, seconds=0.02)
    loaded = [_JOURNAL] if node.scenario.driver.installed else []
    lines = [*loaded, *(f"kernel: {line}" for line in node.scenario.kernel_log)]
    text = "".join(f"Nov 21 01:00:{second:02} {node.scenario.hostname} {line}\n" for second, line in enumerate(lines))
    return Completed(returncode=0, stdout=text)


def _as_root(node: Node, text: str) -> Completed:
    if node.user.uid != 0:
        return Completed(returncode=1, stderr="Operation not permitted (you must be root)\n", seconds=0.01)
    return Completed(returncode=0, stdout=text, seconds=0.01)


def _npu_smi_keys(node: Node) -> Iterator[str]:
    yield from ("npu-smi info", "npu-smi info -l", "npu-smi info -m", "npu-smi info -t topo", "npu-smi -v")
    for npu, chips in node.cards().items():
        for kind in npu_smi_950.KINDS if node.product.family == "950" else npu_smi_pages.KINDS:
            yield f"npu-smi info -t {kind} -i {npu}"
            yield from (f"npu-smi info -t {kind} -i {npu} -c {chip.chip}" for chip in chips)


def _npu_smi_text(node: Node, words: list[str]) -> str | tuple[str, int]:
    """What npu-smi prints, or its text and status where it refuses."""
    of_950 = node.product.family == "950"
    if words in (["-v"], ["--version"]):
        return npu_smi_pages.version(node)
    if words == ["info"]:
        return npu_smi_950.info(node) if of_950 else npu_smi.info(node)
    if words == ["info", "-l"]:
        return npu_smi_950.listing(node) if of_950 else npu_smi_pages.listing(node)
    if words == ["info", "-m"]:
        return npu_smi_950.mapping(node) if of_950 else npu_smi_pages.mapping(node)
    if words == ["info", "-t", "topo"]:
        return _topology(node)
    options = dict(zip(words[1::2], words[2::2], strict=False))
    kind, npu, chip = options.get("-t", ""), options.get("-i", ""), options.get("-c")
    if words[:1] != ["info"] or not kind or not npu.isdecimal() or not (chip or "0").isdecimal():
        return npu_smi_pages.UNKNOWN_OPTION
    if int(npu) not in node.cards():
        return npu_smi_pages.INVALID_CARD
    page = npu_smi_950.page if of_950 else npu_smi_pages.page
    return page(node, kind, int(npu), None if chip is None else int(chip))


def _topology(node: Node) -> str | tuple[str, int]:
    """The matrix, or what one lost NPU, or /sys without PCI devices, makes of it; an A3 leaves a lost NPU out."""
    if node.product.family == "310P":
        return npu_smi_pages.answer_unsupported("topo")
    if node.scenario.topology.form == "unreadable":
        return npu_smi_pages.refuse("")
    if node.lost_npus() and node.product.family != "A3":
        return npu_smi_pages.NO_TOPOLOGY
    return npu_smi.topology(node)


def _as_completed(answer: tuple[str, int], tool: str, seconds: float | None = None) -> Completed:
    text, status = answer
    return Completed(returncode=status, stdout=text, seconds=SECONDS[tool] if seconds is None else seconds)


def _is_executable(tree: FileTree, path: str) -> bool:
    try:
        found = tree.stat(path)
        return found.kind != "dir" and "x" in found.access
    except OSError:
        return False
