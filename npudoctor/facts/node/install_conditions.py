"""What the vendor's installers need of a node: tools, writable folders, su for root, an account, a local root."""

from __future__ import annotations

import contextlib
import posixpath
import re
from collections.abc import Mapping

from npudoctor.facts.driver.version_files import InstallRecord
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.holders import CardHolders
from npudoctor.facts.node.staged_packages import StagedPackages
from npudoctor.facts.system.processes import Process, Processes
from npudoctor.facts.system.storage import Mounts
from npudoctor.records import record
from npudoctor.sdk import Because, Host, NotApplicable, Unavailable, probe

INSTALLER_TOOLS = ("lspci", "ifconfig", "udevadm", "modprobe", "modinfo", "lsattr", "chattr", "systemctl", "useradd")
"""Of the vendor's check_tools.conf those that minimal systems lack."""
BUILD_TOOLS = ("make", "gcc", "dkms")
PREFIX = "/usr/local/Ascend"
WRITTEN = ("/usr", "/usr/local", "/usr/local/bin", PREFIX, "/etc", "/lib/modules", "/var/log")
"""Folders into which the driver's installer writes."""
USER = "HwHiAiUser"
_DIRECTORIES = frozenset({"sss", "ldap", "winbind", "nis", "nisplus"})
USUAL_ID = 1000
"""Uid and gid that official images and MindCluster expect."""
_INSTALLERS = frozenset(
    {
        *("apt", "apt-get", "aptitude", "dpkg", "unattended-upgrade", "unattended-upgr", "dnf", "dnf-3", "yum", "rpm"),
        *("zypper", "transactional-update", "ansible-playbook", "salt-call", "chef-client", "dkms"),
    }
)


@record(frozen=True)
class InstallTools:
    """The programs that are missing: those that the installer runs, and those that build its modules."""

    installer: tuple[str, ...]
    build: tuple[str, ...]


@probe
def install_tools(host: Host, staged: StagedPackages) -> InstallTools:
    """From PATH and the usual folders."""
    _ = staged
    if host.about.source == "simulated":
        raise NotApplicable("a simulated node has only the programs of the vendor")
    return InstallTools(
        tuple(tool for tool in INSTALLER_TOOLS if host.which(tool) is None),
        tuple(tool for tool in BUILD_TOOLS if host.which(tool) is None),
    )


@record(frozen=True)
class ImmutableFolders:
    """Folders into which the installer writes and that have the immutable or the append-only attribute."""

    paths: tuple[str, ...]


def parse_attributes(text: str) -> dict[str, str]:
    """Read `lsattr -d`: flags by path."""
    rows = (line.split(None, 1) for line in text.splitlines())
    return {row[1]: row[0] for row in rows if len(row) == 2 and re.fullmatch(r"[-A-Za-z]{5,40}", row[0])}


@probe
def immutable_folders(host: Host, staged: StagedPackages) -> ImmutableFolders:
    """From lsattr; file systems without attributes answer nothing."""
    _ = staged
    there = [path for path in WRITTEN if host.exists(path)]
    found = parse_attributes(host.run(["lsattr", "-d", *there]).stdout)
    if not found:
        raise Unavailable("lsattr shows no attributes on this file system", because=Because.FAILED)
    return ImmutableFolders(tuple(path for path, flags in found.items() if set("ia") & set(flags)))


@record(frozen=True)
class SuWithoutPassword:
    """Whether `su - USER` asks root for no password, and the file that says so."""

    allowed: bool
    path: str


def parse_pam(text: str) -> bool:
    """Whether a PAM service lets root in before any module that asks."""
    for line in text.replace("\\\n", " ").splitlines():
        words = line.partition("#")[0].split()
        if len(words) < 3 or words[0].lstrip("-") != "auth":
            continue
        if words[-1].endswith("pam_rootok.so") or any(word.endswith("pam_rootok.so") for word in words):
            return words[1] == "sufficient" or "success=" in line
        if any(word.endswith(("pam_unix.so", "pam_sss.so", "pam_ldap.so", "pam_deny.so")) for word in words):
            return False
    return False


@probe
def su_without_password(host: Host, staged: StagedPackages) -> SuWithoutPassword:
    """From the PAM files of su."""
    _ = staged
    for path in ("/etc/pam.d/su-l", "/etc/pam.d/su", "/usr/lib/pam.d/su"):
        with contextlib.suppress(Unavailable):
            text = host.read(path)
            if (
                path.endswith("su-l")
                and "pam_rootok" not in text
                and re.search(r"include\s+su\b|substack\s+su\b", text)
            ):
                continue
            return SuWithoutPassword(parse_pam(text), path)
    raise Unavailable("the PAM files of su could not be read")


@record(frozen=True, kw_only=True)
class DriverAccount:
    """The account that owns the devices. `uid` and `gid` are None where it does not exist. `elsewhere` tells that it
    comes from a directory service, `directory` which services accounts come from. `uid_taken_by` and `gid_taken_by`
    name who else has the usual number."""

    name: str
    uid: int | None = None
    gid: int | None = None
    group: bool = False
    elsewhere: bool = False
    directory: tuple[str, ...] = ()
    uid_taken_by: str | None = None
    gid_taken_by: str | None = None


def parse_accounts(text: str) -> dict[str, tuple[int, int]]:
    """Name to uid and gid of /etc/passwd, or to gid twice of /etc/group."""
    found = {}
    for line in text.splitlines():
        fields = line.split(":")
        numbers = [field for field in fields[2:4] if field.isdecimal()]
        if len(fields) >= 3 and numbers:
            found[fields[0]] = (int(numbers[0]), int(numbers[-1]) if len(fields) > 4 else int(numbers[0]))
    return found


@probe
def driver_account(host: Host, staged: StagedPackages, recorded: InstallRecord | None) -> DriverAccount:
    """From /etc/passwd, /etc/group and nsswitch.conf; a directory service is asked with getent."""
    _ = staged
    return account_of(host, (recorded.user if recorded else None) or USER)


def account_of(host: Host, name: str) -> DriverAccount:
    """What is known of the account of this name."""
    users, groups = parse_accounts(host.read("/etc/passwd")), parse_accounts(host.read("/etc/group"))
    services: tuple[str, ...] = ()
    with contextlib.suppress(Unavailable):
        lines = (line.partition("#")[0].partition(":") for line in host.read("/etc/nsswitch.conf").splitlines())
        named = next((words.split() for database, _, words in lines if database.strip() == "passwd"), [])
        services = tuple(word for word in named if word in _DIRECTORIES)
    own, elsewhere = users.get(name), False
    if own is None and services:
        with contextlib.suppress(Unavailable):
            own = parse_accounts(host.run(["getent", "passwd", name]).stdout).get(name)
            elsewhere = own is not None
    others = {uid: user for user, (uid, _) in users.items() if user != name}
    other_groups = {gid: group for group, (gid, _) in groups.items() if group != name}
    return DriverAccount(
        name=name,
        uid=own[0] if own else None,
        gid=own[1] if own else None,
        group=name in groups,
        elsewhere=elsewhere,
        directory=services,
        uid_taken_by=others.get(USUAL_ID),
        gid_taken_by=other_groups.get(USUAL_ID),
    )


@record(frozen=True, kw_only=True)
class InstallRoot:
    """What / and the prefix are mounted from. `ostree` tells that the system is deployed as an image."""

    fstype: str
    read_only: bool
    ostree: bool = False
    prefix_fstype: str | None = None
    prefix_read_only: bool = False


@probe
def install_root(host: Host, staged: StagedPackages, mounts: Mounts, container: Container | None) -> InstallRoot:
    """From the mount table."""
    _ = staged
    if container is not None:
        raise NotApplicable("the root of a container comes from its image")
    root = mounts.at("/")
    if root is None:
        raise Unavailable("no root file system in the mount table", because=Because.NOT_RECORDED)
    paths = [f"/{'/'.join(PREFIX.strip('/').split('/')[:count])}" for count in (3, 2, 1)]
    prefix = next((mount for path in paths if (mount := mounts.at(path)) is not None), root)
    ostree = False
    with contextlib.suppress(Unavailable):
        ostree = host.exists("/run/ostree-booted")
    return InstallRoot(
        fstype=root.fstype,
        read_only="ro" in root.options,
        ostree=ostree,
        prefix_fstype=prefix.fstype,
        prefix_read_only="ro" in prefix.options,
    )


@record(frozen=True)
class OtherInstallers:
    """Processes that install or configure software now."""

    processes: tuple[Process, ...]


def _is_of_vendor(word: str) -> bool:
    """Whether a word of a command line is a package of the vendor, or the script that one unpacks."""
    name = posixpath.basename(word).lower()
    of_vendor = name.startswith(("ascend", "atlas")) or "npu-driver" in name or "npu-firmware" in name
    return name == "run_driver_install.sh" or (of_vendor and name.endswith(".run"))


@probe(of_the_moment=True)
def other_installers(staged: StagedPackages, processes: Processes) -> OtherInstallers:
    """From the names and command lines of the processes."""
    _ = staged
    found = [
        process
        for process in processes.by_pid.values()
        if not process.dead and (process.name in _INSTALLERS or any(map(_is_of_vendor, process.cmdline)))
    ]
    return OtherInstallers(tuple(sorted(found, key=lambda process: process.pid)))


@record(frozen=True)
class HolderOwners:
    """Who started each process that holds an NPU, by pid: a unit, a pod, a container or a login session; and the names
    of processes that the installer ends by itself (/etc/custom_process.cfg)."""

    owners: Mapping[int, str]
    ended_by_installer: tuple[str, ...] = ()


def owner_of(cgroup: str) -> str | None:
    """Who a control group belongs to, from /proc/PID/cgroup."""
    for line in cgroup.splitlines():
        path = line.split(":", 2)[-1]
        if pod := re.search(r"pod([0-9a-f]{8}[-_][0-9a-f_-]{27})", path):
            return f"pod {pod[1].replace('_', '-')}"
        if job := re.search(r"/job_(\d+)", path.partition("slurm")[2]):
            return f"Slurm job {job[1]}"
        if container := re.search(
            r"(?:docker|libpod|cri-containerd|crio|containerd)[-/:]([0-9a-f]{12})[0-9a-f]*", path
        ):
            return f"container {container[1]}"
        if unit := re.search(r"/([^/]+\.service)(?:/|$)", path):
            return f"unit {unit[1]}" if not unit[1].startswith("user@") else "a login session"
        if "session-" in path:
            return "a login session"
    return None


@probe(of_the_moment=True)
def holder_owners(host: Host, staged: StagedPackages, holders: CardHolders) -> HolderOwners:
    """From the control groups of the processes that npu-smi lists."""
    _ = staged
    owners = {}
    for pid in sorted(holders.pids):
        with contextlib.suppress(Unavailable):
            if owner := owner_of(host.read(f"/proc/{pid}/cgroup")):
                owners[pid] = owner
    ended: tuple[str, ...] = ()
    with contextlib.suppress(Unavailable):
        lines = host.read("/etc/custom_process.cfg").splitlines()
        ended = tuple(line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#"))
    return HolderOwners(owners, ended)
