"""A node below a folder, and packages that act on it as the vendor's do: options, files, texts and exit codes."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from npudoctor.fixer.journal import Journal, RunRecord, now
from npudoctor.host import Completed
from npudoctor.host.live.local import LocalHost
from npudoctor.installing import conditions, opening, run
from npudoctor.installing.state import Node, Step
from tests.packages.build import tar_gz

MACHINE = "5f0e4d3c2b1a5f0e4d3c2b1a5f0e4d3c"
CARDS = ("0000:81:00.0 d802", "0000:c1:00.0 d802")
HEADER = """#!/bin/bash
# This script was generated using Makeself 2.4.2
label="ASCEND910B {kind} RUN PACKAGE"
filesizes="{size}"
skip="000"
root='{root}' version='{version}' chips='{chips}' does='{does}'
log() {{ echo "[{Kind}] [2026-05-06 07:08:09] $*"; }}
mode=
for option in "$@"; do
  case "$option" in
    --full|--upgrade) mode=$option ;;
    --quiet|--nox11|--install-for-all) ;;
    *) log "[ERROR]ERR_NO:0x0004;ERR_DES:unrecognized $option"; exit 1 ;;
  esac
done
echo "$mode" >>"$root/ran-{kind}"
log "[INFO]Start time: 2026-05-06 07:08:09"
ascend="$root/usr/local/Ascend"
test "$mode" = --upgrade && rm -rf "$ascend/{kind}"
while test "$does" = waits && test ! -e "$root/go"; do sleep 0.05; done
test "$does" = nothing && exit 0
test "$does" = serves && sleep 1000 & echo $! >>"$root/services"
test "$does" = dies && {{ sleep 1000 & echo $! >>"$root/services"; kill -9 $$; }}
test "$does" = fails && log "[ERROR]Drv_dkms_env_check failed, details in : /var/log/ascend_seclog/x.log" && exit 1
printf 'Driver_Install_Path_Param=/usr/local/Ascend\\n' >"$root/etc/ascend_install.info"
mkdir -p "$ascend/{kind}/tools"
: >"$ascend/{kind}/tools/upgrade-tool"
{text}
printf 'Version=%s\\n' "$version" >"$ascend/{kind}/version.info"
test "$does" = reboots && log "[WARNING]Kernel modules can not be removed, reboot needed!" && exit 2
exit 0
"""
DONE = 'log "[INFO]Driver package installed successfully! The new version takes effect immediately."'
FLASHED = 'log "[INFO]The firmware of [$chips] chips are successfully upgraded."'


class Tree(LocalHost):
    """This machine, with the files of a folder, a boot and processes of the test's own."""

    serials: tuple[str, ...] = ()
    boot = "11111111-1111-1111-1111-111111111111"
    holders: tuple[str, ...] = ()
    names = frozenset({"sh"})
    containers: Mapping[str, str] = MappingProxyType({})
    cut_at: int | None = None
    problem: Callable[[], BaseException] = KeyboardInterrupt
    operations = 0

    def fresh(self) -> "Tree":
        return self

    def boot_id(self) -> str:
        return self.boot

    def which(self, name: str) -> str | None:
        return None if name in ("scontrol", "kubectl", "systemd-detect-virt") else super().which(name)

    def holding(self, pattern: str) -> tuple[str, ...]:
        return self.holders

    def process_names(self) -> frozenset[str]:
        return self.names

    def _count(self) -> None:
        self.operations += 1
        if self.operations == self.cut_at:
            raise self.problem()

    def write_file(self, path: str, content: bytes, **how: object) -> None:
        self._count()
        super().write_file(path, content, **how)  # type: ignore[arg-type]

    def make_folder(self, path: str, *, mode: int = 0o755) -> None:
        self._count()
        super().make_folder(path, mode=mode)

    def remove(self, path: str, *, follow: bool = False) -> None:
        self._count()
        super().remove(path, follow=follow)

    def run_streaming(self, argv: Sequence[str], **how: Any) -> Completed:
        return LocalHost().run_streaming(argv, **how)

    def start_apart(self, argv: Sequence[str], variable: str) -> None:
        self._count()
        super().start_apart(argv, variable)


def tree(folder: Path) -> Tree:
    """An empty node below a folder."""
    for name in ("etc", "run", "usr/local", "var/lib", "repo"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "etc/machine-id").write_text(f"{MACHINE}\n")
    return Tree(root=str(folder))


def package(folder: Path, kind: str, version: str, does: str = "installs", *, chips: int = 2) -> Path:
    """A package that installs, reboots, fails, does nothing, serves (starts a service), dies (and leaves
    a process), or waits for the file go."""
    payload = tar_gz({"install.sh": "exit 0\n"})
    fields = {"kind": kind, "Kind": kind.title(), "size": len(payload), "root": folder, "version": version}
    text = HEADER.format(**fields, chips=chips, does=does, text=DONE if kind == "driver" else FLASHED)
    text = text.replace('skip="000"', f'skip="{text.count(chr(10)):03}"')
    path = folder / "repo" / f"{kind}-{version}.run"
    path.write_bytes(text.encode() + payload)
    return path


def step(host: Tree, path: Path, *, now_installed: str = "", way_back: str = "uninstall.sh") -> Step:
    """The step that installs a package."""
    kind, _, version = path.stem.partition("-")
    source = f"/repo/{path.name}"
    options = ("--nox11", *(("--upgrade",) if now_installed else ("--full", "--install-for-all")), "--quiet")
    return Step(
        id=f"{kind}.install",
        component=kind,
        title=f"NPU {kind}",
        now=now_installed,
        then=version,
        way_back=way_back if kind == "driver" else "NO WAY BACK",
        source=source,
        file=f"{kind}.run",
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        options=options,
    )


def opened(host: Tree, steps: Sequence[Step], *, serials: tuple[str, ...] = ()) -> tuple[Journal, str]:
    """The journal with the run of these steps, before its first one."""
    journal = Journal(host, "/var/lib/npudoctor")
    journal.prepare()
    record = RunRecord(
        id=journal.new_name("setup.packages"),
        fix="driver.install",
        title="NPU driver",
        params="{}",
        by="root (uid 0)",
        started_at=now(),
        effect="reboot",
        preview=(),
        reversible=False,
        host=host.about.hostname,
        machine_id=journal.machine_id,
    )
    opening.open_run(journal, record, node_of(host, serials), steps)
    return journal, record.id


def node_of(host: Tree, serials: tuple[str, ...] = ()) -> Node:
    """This node, as a plan describes it."""
    return Node(cards=CARDS, serials=serials, machine_id=MACHINE, boot_id=host.boot, unmanaged=True, system="4c4c")


def installation(host: Tree, journal: Journal, id: str, said: list[str], wrong: Sequence[str] = ()) -> run.Installation:
    """The run as a command goes on with it."""
    return run.Installation(host, journal, id, caller(host, said, wrong))


def caller(host: Tree, said: list[str], wrong: Sequence[str] = ()) -> run.Caller:
    """What the command supplies: the checks afterwards find these."""
    return run.Caller(
        say=said.append,
        wrong=lambda: list(wrong),
        free=lambda: conditions.free(host),
        causes=lambda log: ["cause: known"] if "ERROR" in log else [],
        table=lambda: (CARDS, host.serials),
        containers=lambda: dict(host.containers),
    )


def times_run(folder: Path, kind: str) -> int:
    """How often an installer was started."""
    path = folder / f"ran-{kind}"
    return len(path.read_text().splitlines()) if path.exists() else 0
