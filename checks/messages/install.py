"""What the checks before an installation say."""

from npudoctor.sdk import Message, Sentence, Severity

ON_THE_HOST = Sentence("the driver is installed on the host, not in a container")
NO_WHEELS = Sentence("no wheel in the folder requires a C library")
GLIBC_UNKNOWN = Sentence("version of glibc unknown")
SPACE_UNKNOWN = Sentence("free space of the file systems unknown")
MOUNTS_UNKNOWN = Sentence("mounted file systems unknown")

# install.packages

NO_PACKAGES = Message(
    "install.packages/none",
    summary="No usable package in {folders}",
    hint="Copy the packages there again, with the vendor's names; `npudoctor packages` with a folder shows its files.",
    severity=Severity.ERROR,
)
UNUSABLE = Message(
    "install.packages/unusable",
    summary="{count:A package|Packages} in the folder unusable: {names}",
    hint="Download {count:it|them} again, and compare the size and the checksum with the vendor's page. "
    "If {count:it|one} cannot be read, allow it to this user, or check as root.",
    severity=Severity.WARNING,
)

# install.space

SPACE_LOW = Message(
    "install.space/low",
    summary="Too little free space on {mount}: {free:GB}, required {needed:GB} for {path}",
    detail="An installer that runs out of space leaves a driver or a CANN that is not complete.",
    hint="Free space, or mount a larger file system there. Do not put it on a network file system: file locks fail.",
    severity=Severity.ERROR,
)
MEGABYTES = Sentence("{size:GB} free")

# install.temporary-folder

TEMPORARY_NOEXEC = Message(
    "install.temporary-folder/noexec",
    summary="{path} is mounted noexec ({mount}): the packages are unpacked there and executed",
    hint="Name another folder for the installation: TMPDIR, owned by root with mode 0700. No statement of the "
    "vendor is known; this is how makeself works.",
    severity=Severity.WARNING,
)

# install.module-build

HEADERS_MISSING = Message(
    "install.module-build/headers",
    summary="No kernel headers for {kernels}",
    detail="The driver builds its modules with the headers of exactly this kernel, unless its package has modules "
    "for it. An upgrade removes the old driver first: if the build fails, there is no driver.",
    hint="Install the headers of {count:this kernel|each of these kernels}.",
    severity=Severity.WARNING,
)
BUILD_FAILED = Message(
    "install.module-build/failed",
    summary="An empty kernel module cannot be built for {kernel}: {reason}",
    detail="The driver's modules fail in the same way, and an upgrade has removed the old driver by then.",
    hint="Use the gcc with which the kernel was built, and headers of exactly this release.",
    severity=Severity.ERROR,
)
BUILD_NOT_TRIED = Message(
    "install.module-build/not-tried",
    summary="No module was built for {kernel}: {reason}",
    severity=Severity.INFO,
)
BUILT = Message(
    "install.module-build/built",
    summary="An empty module was built for {kernels}; loading it was not tried",
    detail="Loading a module changes the node. Whether the kernel accepts one is not known before the installation.",
    severity=Severity.INFO,
)

# install.module-signing

SIGNED_ONLY = Message(
    "install.module-signing/required",
    summary="The kernel refuses unsigned modules ({reasons})",
    detail="Modules that are built on the node are unsigned. No statement of the vendor about this is known.",
    hint="Sign the driver's modules with a key that is enrolled on this node, or switch the enforcement off.",
    severity=Severity.ERROR,
)
SECURE_BOOT = Message(
    "install.module-signing/secure-boot",
    summary="Secure Boot is on; whether the kernel accepts unsigned modules was not tried",
    hint="Sign the driver's modules with a key that is enrolled (mokutil --import), or switch Secure Boot off.",
    severity=Severity.WARNING,
)
KYSEC = Message(
    "install.module-signing/kysec",
    summary="KySec is active ({status}): it may refuse to execute the installer or to load its modules",
    hint="Let the site's administrator allow the installer, or set KySec to softmode for the installation.",
    severity=Severity.WARNING,
)

# install.tools

TOOLS_MISSING = Message(
    "install.tools/installer",
    summary="Programs missing that the driver's installer requires: {tools}",
    hint="Install net-tools, pciutils, e2fsprogs and kmod.",
    severity=Severity.ERROR,
)
BUILD_TOOLS_MISSING = Message(
    "install.tools/build",
    summary="Programs missing to build the driver's modules: {tools}",
    hint="Install them, unless the package has modules for this kernel.",
    severity=Severity.WARNING,
)

# install.immutable

IMMUTABLE = Message(
    "install.immutable/folders",
    summary="{paths} {count:has|have} the immutable or append-only attribute: the installer cannot write there",
    hint="Find out who set it, and remove it for the installation. The driver's own tree is always immutable.",
    severity=Severity.ERROR,
)

# install.su

SU_ASKS = Message(
    "install.su/asks",
    summary="su asks root for a password ({path}): an unattended installation waits forever",
    detail="The driver's installer runs `su - {user}` as root.",
    hint="Add `auth sufficient pam_rootok.so` as the first auth line. npudoctor does not edit PAM.",
    severity=Severity.ERROR,
)

# install.glibc

GLIBC = Message(
    "install.glibc/old",
    summary="Wheels require glibc {needed}; this node has {glibc}",
    hint="Use a newer operating system, an image, or an older torch and torch_npu (manylinux_2_17).",
    severity=Severity.ERROR,
)

# install.other-installers

INSTALLERS = Message(
    "install.other-installers/running",
    summary="Other installers are running: {names}",
    hint="Wait until they have ended. Two installers at once leave a system that neither of them describes.",
    severity=Severity.ERROR,
)

# install.holders

HOLDERS = Message(
    "install.holders/processes",
    summary="{count:A process holds|Processes hold} the NPUs: {holders}",
    detail="The installer refuses, or the driver is replaced under a running job.",
    hint="Drain or cordon the node and stop them. Stop a unit, a pod or a container by its name, not by its process.",
    severity=Severity.ERROR,
)
ENDED_BY_INSTALLER = Message(
    "install.holders/ended-by-installer",
    summary="The installer itself ends these processes: {names}",
    detail="They are listed in {path}.",
    severity=Severity.WARNING,
)

# install.vnpu

SLICES = Message(
    "install.vnpu/slices",
    summary="{count} vNPU {count:slice|slices} on this node: an installation of the driver ends {count:it|them}",
    hint="Move their users away first. Whether {count:it comes|they come} back depends on /etc/vnpu.cfg.",
    severity=Severity.WARNING,
)

# install.user

USER_MISSING = Message(
    "install.user/missing",
    summary="User {name} does not exist: the driver's installer stops",
    hint="Create user and group before the installation, with uid and gid {usual} where they are free.",
    severity=Severity.WARNING,
)
USER_GROUP_MISSING = Message(
    "install.user/group",
    summary="User {name} exists, its group {name} does not",
    hint="Create the group with the number that the user has as its group.",
    severity=Severity.WARNING,
)
ID_TAKEN = Message(
    "install.user/id-taken",
    summary="{what} {usual}, which images and MindCluster expect for {name}, belongs to {taken_by}",
    hint="Use another number for {name} on all nodes, or move the other account by hand.",
    severity=Severity.WARNING,
)
USER_ELSEWHERE = Message(
    "install.user/directory",
    summary="User {name} comes from a directory service ({services}), not from /etc/passwd",
    hint="At boot the driver needs it before the network is there: create it locally with the same numbers.",
    severity=Severity.WARNING,
)

# install.root

IMAGE_ROOT = Message(
    "install.root/image",
    summary="The root file system is {what}: driver and CANN installed on it are lost or cannot be written",
    detail="The node is started from an image, so that they have to be a part of the image.",
    hint="Install them into the image: mount it on a build host, chroot into it, install with the headers of the "
    "image's kernel, and flash the firmware on the node itself.",
    severity=Severity.ERROR,
)
PREFIX_SHARED = Message(
    "install.root/prefix",
    summary="{path} is on {what}: CANN's installer needs a local, writable file system",
    severity=Severity.ERROR,
)
