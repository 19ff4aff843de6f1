"""Before driver, firmware and CANN are installed: what makes an installer stop halfway, or costs a running job.

They run only when they are named together with a folder of packages: `npudoctor check install --packages FOLDER`.
"""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor import knowledge
from npudoctor.facts.driver.version_files import InstallRecord
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.device_nodes import DeviceNodes
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.facts.node.holders import CardHolders
from npudoctor.facts.node.install_conditions import (
    PREFIX,
    USUAL_ID,
    DriverAccount,
    HolderOwners,
    ImmutableFolders,
    InstallRoot,
    InstallTools,
    OtherInstallers,
    SuWithoutPassword,
)
from npudoctor.facts.node.staged_packages import StagedPackages
from npudoctor.facts.python.target_python import PythonEnvironment
from npudoctor.facts.system.module_builds import ModuleBuilds, ModuleSigning
from npudoctor.facts.system.platform import Platform
from npudoctor.facts.system.storage import Disks, Mounts
from npudoctor.sdk import ON_REQUEST, Because, Evidence, Finding, FixOffer, NotApplicable, Unavailable, check

from .messages import install as messages

TEMPORARY = "/tmp"  # noqa: S108 (where the packages unpack themselves)
IMAGES = frozenset({"overlay", "tmpfs", "ramfs", "rootfs", "squashfs", "erofs", "nfs", "nfs4", "iso9660", "9p", "ceph"})
"""Root file systems of nodes that start from an image."""
SHARED = frozenset({"nfs", "nfs4", "cifs", "lustre", "gpfs", "ceph", "glusterfs", "beegfs", "fuse.sshfs"})


def _temporary_folder(environment: JobEnvironment | None) -> str:
    named = environment.non_empty("TMPDIR") if environment is not None else None
    return named if named is not None and named.startswith("/") else TEMPORARY


@check("install.packages", profile=ON_REQUEST)
def the_packages_are_usable(staged: StagedPackages) -> Iterator[Finding]:
    """Packages in the folder usable.

    An interrupted transfer leaves a file with the right name, and the installer fails halfway.
    """
    unusable = [package for package in staged.packages if not package.usable]
    evidence = tuple(Evidence(source=package.name, actual=package.problem) for package in unusable[:4])
    if not staged.usable:
        yield messages.NO_PACKAGES.finding(folders=staged.folders, evidence=evidence)
    elif unusable:
        yield messages.UNUSABLE.finding(
            count=len(unusable), names=[package.name for package in unusable], evidence=evidence
        )


@check("install.space", profile=ON_REQUEST)
def there_is_room(staged: StagedPackages, disks: Disks, environment: JobEnvironment | None) -> Iterator[Finding]:
    """Free space for the packages.

    The vendor asks for 300 MB for the driver and 10 GB for CANN; packages unpack themselves into TMPDIR.
    """
    table = knowledge.install()
    components = {package.component for package in staged.usable}
    rows = [row for row in table.components if row.id in components]
    largest = max((package.size_bytes for package in staged.usable if package.format == "run"), default=0)
    needs = {PREFIX: sum(row.disk_mb or 0 for row in rows), _temporary_folder(environment): 2 * largest // 1_000_000}
    known = False
    for path, needed in needs.items():
        disk = disks.holding(path)
        if disk is None or disk.free_bytes is None:
            continue
        known = True
        free = disk.free_bytes // 1_000_000
        if free < needed:
            yield messages.SPACE_LOW.finding(
                subject=path,
                mount=disk.mount,
                free=free,
                needed=needed,
                path=path,
                commands=(f"df -h {path}",),
                evidence=(Evidence(source=disk.mount, actual=messages.MEGABYTES.text(size=free)),),
            )
    if not known:
        raise Unavailable(messages.SPACE_UNKNOWN.text(), because=Because.NOT_RECORDED)


@check("install.temporary-folder", profile=ON_REQUEST)
def packages_can_be_executed(
    staged: StagedPackages, mounts: Mounts, environment: JobEnvironment | None
) -> Iterator[Finding]:
    """Temporary folder without noexec.

    A package unpacks itself into TMPDIR and executes what it has unpacked.
    """
    _ = staged
    if not mounts.mounts:
        raise Unavailable(messages.MOUNTS_UNKNOWN.text(), because=Because.NOT_RECORDED)
    path = _temporary_folder(environment)
    above = [mount for mount in mounts.mounts if mount.mount in ("/", path) or path.startswith(f"{mount.mount}/")]
    mount = max(above, key=lambda one: len(one.mount), default=None)
    if mount is not None and "noexec" in mount.options:
        yield messages.TEMPORARY_NOEXEC.finding(
            path=path,
            mount=mount.mount,
            commands=("mkdir -m 0700 /root/npu-packages && export TMPDIR=/root/npu-packages  # as root",),
            evidence=(Evidence(source=mount.mount, expected="exec", actual=",".join(mount.options)),),
        )


@check("install.module-build", profile=ON_REQUEST)
def a_module_can_be_built(builds: ModuleBuilds, platform: Platform | None) -> Iterator[Finding]:
    """Kernel module built for every installed kernel.

    An upgrade removes the old driver before it builds the new one. A kernel that boots later needs the modules, too.
    """
    lacking = [build.kernel for build in builds.builds if not build.headers]
    if lacking:
        command = _install_command(platform, lacking[0])
        yield messages.HEADERS_MISSING.finding(
            kernels=lacking,
            count=len(lacking),
            commands=(command,) if command else (),
            fix="system.packages",
            evidence=tuple(
                Evidence(source=f"/lib/modules/{kernel}/build", actual="missing", expected="kernel headers")
                for kernel in lacking[:4]
            ),
        )
    for build in builds.builds:
        if build.built is False:
            yield messages.BUILD_FAILED.finding(subject=build.kernel, kernel=build.kernel, reason=build.reason)
        elif build.headers and build.built is None:
            yield messages.BUILD_NOT_TRIED.finding(subject=build.kernel, kernel=build.kernel, reason=build.reason)
    if built := [build.kernel for build in builds.builds if build.built]:
        yield messages.BUILT.finding(kernels=built)


@check("install.module-signing", profile=ON_REQUEST)
def unsigned_modules_are_accepted(signing: ModuleSigning) -> Iterator[Finding]:
    """Kernel accepts unsigned modules (Secure Boot, KySec).

    Modules that are built on a node are unsigned; a kernel that demands signatures refuses the driver.
    """
    reasons = ["module.sig_enforce=Y"] if signing.enforced else []
    reasons += [f"lockdown {signing.lockdown}"] if signing.lockdown in ("integrity", "confidentiality") else []
    if reasons:
        yield messages.SIGNED_ONLY.finding(
            reasons=reasons, commands=("mokutil --sb-state", "cat /sys/kernel/security/lockdown")
        )
    elif signing.secure_boot:
        yield messages.SECURE_BOOT.finding(commands=("mokutil --sb-state",))
    if signing.kysec is not None and "disabled" not in signing.kysec.lower():
        yield messages.KYSEC.finding(status=signing.kysec, commands=("getstatus",))


@check("install.tools", profile=ON_REQUEST)
def the_programs_are_there(
    tools: InstallTools, platform: Platform | None, container: Container | None
) -> Iterator[Finding]:
    """Programs that the driver's installer requires.

    Its first lines stop with "The list of missing tools"; without dkms, make and gcc its modules cannot be built.
    """
    if container is not None:
        raise NotApplicable(messages.ON_THE_HOST.text())
    command = _install_command(platform, (platform and platform.kernel) or "$(uname -r)")
    commands = (command,) if command else ()
    if tools.installer:
        yield messages.TOOLS_MISSING.finding(tools=list(tools.installer), commands=commands, fix="system.packages")
    if tools.build:
        yield messages.BUILD_TOOLS_MISSING.finding(tools=list(tools.build), commands=commands, fix="system.packages")


def _install_command(platform: Platform | None, kernel: str) -> str | None:
    """How the system's packages for the driver are installed; None on a system that is not in the table."""
    return knowledge.install().install_command((platform and platform.os_id) or "", kernel)


@check("install.immutable", profile=ON_REQUEST)
def the_installer_may_write(folders: ImmutableFolders) -> Iterator[Finding]:
    """Folders of the installation not immutable.

    Not even root can write into an immutable folder; the installer stops halfway.
    """
    if folders.paths:
        yield messages.IMMUTABLE.finding(
            paths=list(folders.paths),
            count=len(folders.paths),
            commands=tuple(f"chattr -ia {path}  # as root" for path in folders.paths),
        )


@check("install.su", profile=ON_REQUEST)
def root_needs_no_password(su: SuWithoutPassword, recorded: InstallRecord | None) -> Iterator[Finding]:
    """su without password for root.

    The driver's installer calls su; where PAM asks for a password, an unattended run waits forever.
    """
    if not su.allowed:
        user = (recorded.user if recorded else None) or "HwHiAiUser"
        yield messages.SU_ASKS.finding(path=su.path, user=user, commands=(f"grep -n rootok {su.path}",))


@check("install.glibc", profile=ON_REQUEST)
def the_wheels_find_their_glibc(staged: StagedPackages, python: PythonEnvironment) -> Iterator[Finding]:
    """C library new enough for the wheels in the folder.

    pip does not find a wheel whose manylinux tag names a newer glibc.
    """
    wheels = [package for package in staged.usable if package.glibc is not None]
    if not wheels:
        raise NotApplicable(messages.NO_WHEELS.text())
    own = _numbers(python.glibc)
    if not own:
        raise Unavailable(messages.GLIBC_UNKNOWN.text(), because=Because.NOT_RECORDED)
    too_new = [package for package in wheels if _numbers(package.glibc) > own]
    if too_new:
        needed = max((package.glibc or "" for package in too_new), key=_numbers)
        yield messages.GLIBC.finding(
            needed=needed,
            glibc=python.glibc,
            evidence=tuple(
                Evidence(source=package.name, expected=f"glibc {package.glibc}", actual=f"glibc {python.glibc}")
                for package in too_new[:4]
            ),
        )


def _numbers(version: str | None) -> tuple[int, ...]:
    return tuple(int(part) for part in (version or "").split(".")[:2] if part.isdecimal())


@check("install.other-installers", profile=ON_REQUEST)
def nobody_else_installs(others: OtherInstallers) -> Iterator[Finding]:
    """No other installer or configuration run.

    Two at once wait for each other's lock, or change the same files.
    """
    if others.processes:
        shown = [f"{process.name} (pid {process.pid})" for process in others.processes]
        yield messages.INSTALLERS.finding(
            names=shown,
            evidence=tuple(
                Evidence(source=f"pid {process.pid}", actual=process.command) for process in others.processes[:4]
            ),
        )


@check("install.holders", profile=ON_REQUEST)
def nobody_holds_an_npu(staged: StagedPackages, holders: CardHolders, owners: HolderOwners | None) -> Iterator[Finding]:
    """No process on the NPUs.

    The owner is named: a unit, a pod, a container or a login session is stopped by that name.
    """
    _ = staged
    shown = {}
    for holder in holders.holders:
        if holder.process is not None:
            owner = owners.owners.get(holder.process.pid) if owners is not None else None
            name = f"{holder.process.name} pid {holder.process.pid}"
            shown[holder.process.pid] = f"{name} of {owner}" if owner else name
        elif holder.state.value == "unknown":
            shown[holder.row.pid] = f"{holder.row.name or 'process'} pid {holder.row.pid} (not visible here)"
    if shown:
        yield messages.HOLDERS.finding(holders=list(shown.values()), count=len(shown))
    if owners is not None and owners.ended_by_installer:
        path = "/etc/custom_process.cfg"
        yield messages.ENDED_BY_INSTALLER.finding(names=list(owners.ended_by_installer), path=path)


@check("install.vnpu", profile=ON_REQUEST)
def no_slice_would_end(staged: StagedPackages, nodes: DeviceNodes) -> Iterator[Finding]:
    """No vNPU slices that an installation would end.

    The driver is unloaded, and with it the slices that containers and virtual machines use.
    """
    _ = staged
    if nodes.slices:
        yield messages.SLICES.finding(
            count=len(nodes.slices),
            commands=("npu-smi info -t template-info", "cat /etc/vnpu.cfg"),
            evidence=tuple(Evidence(source=node.path, actual="vNPU") for node in nodes.slices[:4]),
        )


@check("install.user", profile=ON_REQUEST, fix="driver.user")
def the_account_is_there(account: DriverAccount, container: Container | None) -> Iterator[Finding]:
    """User and group of the driver (HwHiAiUser).

    The installer stops without them. Official images and MindCluster expect uid and gid 1000 on every node.
    """
    if container is not None:
        raise NotApplicable(messages.ON_THE_HOST.text())
    name = account.name
    if account.uid is None:
        for what, taken_by in (("uid", account.uid_taken_by), ("gid", account.gid_taken_by)):
            if taken_by is not None:
                yield messages.ID_TAKEN.finding(what=what, usual=USUAL_ID, name=name, taken_by=taken_by)
        free_group = "" if account.gid_taken_by else f" -g {USUAL_ID}"
        free_user = "" if account.uid_taken_by else f" -u {USUAL_ID}"
        yield messages.USER_MISSING.finding(
            name=name,
            usual=USUAL_ID,
            commands=(
                f"groupadd{free_group} {name}",
                f"useradd{free_user} -g {name} -d /home/{name} -m -s /bin/bash {name}",
            ),
            fix=None if account.uid_taken_by or account.gid_taken_by else FixOffer(id="driver.user"),
        )
    elif account.elsewhere:
        yield messages.USER_ELSEWHERE.finding(name=name, services=list(account.directory))
    elif not account.group:
        yield messages.USER_GROUP_MISSING.finding(
            name=name, commands=(f"groupadd {name}", f"usermod -g {name} {name}"), fix=FixOffer(id="driver.user")
        )


@check("install.root", profile=ON_REQUEST)
def the_root_keeps_what_is_written(root: InstallRoot) -> Iterator[Finding]:
    """Root file system that keeps an installation.

    On a node that starts from an image, driver and CANN belong into the image.
    """
    what = "deployed as an image (ostree)" if root.ostree else root.fstype if root.fstype in IMAGES else None
    if what is None and root.read_only:
        what = "read-only"
    if what is not None:
        yield messages.IMAGE_ROOT.finding(what=what, evidence=(Evidence(source="/", actual=root.fstype),))
    elif root.prefix_fstype in SHARED or root.prefix_read_only:
        what = "a read-only file system" if root.prefix_read_only else str(root.prefix_fstype)
        yield messages.PREFIX_SHARED.finding(path=PREFIX, what=what)
