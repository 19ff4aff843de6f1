"""What the checks of the driver say."""

from npudoctor.sdk import Message, Sentence, Severity

# driver.npu-smi

SMI_MISSING = Message(
    "driver.npu-smi/missing",
    summary="npu-smi not found",
    detail="The driver package provides npu-smi. Without it, the health, memory and processes of the NPUs are unknown.",
    hint="Check whether it is outside PATH; otherwise reinstall the driver, which provides it.",
    pitfall="P060",
)
SMI_OF_THE_HOST = Sentence(
    "A container gets npu-smi from its host. Without it, the health, memory and processes of the NPUs are unknown."
)
MOUNT_SMI = Sentence("Recreate the container with npu-smi and the driver libraries mounted from the host.")
FIND_SMI_ON_HOST = Sentence(
    "The host has no {path}, so that Docker made a directory of this name. Find npu-smi on the host first, and mount "
    "it from there."
)
SMI_IS_A_DIRECTORY = Sentence("{path} is a directory: on the host, npu-smi is at another path")
SMI_NOT_EXECUTABLE = Message(
    "driver.npu-smi/not-executable",
    summary="{reason}",
    detail="npu-smi is installed but could not be started. A file that was copied by hand loses its mode, and root "
    "does not run a program that other users can change.",
    hint="Restore its owner (root) and its mode (0755), or reinstall the driver.",
    pitfall="P060",
)
SMI_TIMED_OUT = Message(
    "driver.npu-smi/timed-out",
    summary="npu-smi timed out after {limit_s:g} s",
    detail="npu-smi waits for the driver, and the driver for an NPU that does not respond. Jobs that use this NPU "
    "hang as well, and may not be killable.",
    hint="Find the NPU that hangs in the kernel log. Often only a reboot or a power cycle helps.",
    pitfall="P052",
)
NO_ANSWER = Sentence("no answer after {seconds:.1f} s")
SMI_ERROR_CODE = Message(
    "driver.npu-smi/error-code",
    summary="npu-smi failed with code {ret}: {meaning}",
    detail="The state of the NPUs is unknown until npu-smi works.",
    hint="Check whether the driver modules are loaded, and read the kernel log; then restart or reboot.",
)
SMI_FAILED = Message(
    "driver.npu-smi/failed",
    summary="{reason}",
    detail="The state of the NPUs is unknown until npu-smi works.",
    hint="Check whether the driver modules are loaded, and read the kernel log; then restart or reboot.",
)
RUN_AGAIN = Sentence(
    "Run it again. If its table ends early again, read in the kernel log whether memory ran out or the driver failed."
)
NPU_MAY_WORK = Sentence("This alone does not mean that the NPU is broken: torch_npu may still work here.")
NPU_WORKS = Sentence(
    "The NPUs can be used: torch_npu finds {count} {count:device|devices}. Health, memory and processes are unknown."
)
NPU_DOES_NOT_WORK = Sentence("torch_npu finds no device either, so no job can use an NPU here.")
A_DEVICE = Sentence("at least 1 device")
DEVICES_SEEN = Sentence("{count} {count:device|devices}")
FIND_WHO_HOLDS = Sentence(
    "Find the processes and containers that have the NPUs open, and end those that no job requires. If there are none, "
    "read the kernel log and reboot."
)
CHECK_ON_HOST = Sentence("On the host, check whether npu-smi works there and which other container uses these NPUs.")
CHIP_TABLE = Sentence("a table of chips")
SMI_SLOW = Message(
    "driver.npu-smi/slow",
    summary="npu-smi took {seconds:.1f} s to answer",
    detail="A healthy driver answers within two seconds. A slow one usually waits for an NPU that does not respond; "
    "monitoring that runs npu-smi often then slows jobs down.",
    hint="Check whether one NPU is slow, and read the kernel log.",
    severity=Severity.WARNING,
    pitfall="P052",
)
NO_USABLE_CHIP = -8005
SLICE_NOT_USABLE = Sentence(
    "The container has no whole NPU: /dev/davinci{slices} is of the host's /dev/davinci{parents}. For a vNPU, -8005 "
    "means that it no longer exists: it was destroyed, its NPU was reset, or the driver was installed anew. On the "
    "host, npu-smi lists the vNPUs of a chip."
)
READ_BY_LIBRARY = Sentence("The driver's library libdcmi.so answers, and the NPUs are judged by it.")
SMI_NO_TABLE = Sentence("npu-smi printed no table of chips")
SMI_NO_ACCESS = Sentence("{reason}; this user has no access to the device nodes")
SMI_NO_NODE = Sentence("{reason}; a device node of the driver is missing")

# driver.installed

NOT_INSTALLED = Message(
    "driver.installed/missing",
    summary="Ascend driver not installed",
    detail="Without the driver there are no device nodes, and no program can use an NPU.",
    hint="Install driver and firmware of one HDK release for this chip, and reboot. The first command checks the "
    "packages in a folder and plans their installation; the others are the vendor's, as root. The driver requires the "
    "user HwHiAiUser and the headers of the running kernel.",
    pitfall="P068",
)
NPUS_ON_THE_BUS = Sentence(
    "The NPUs are on the PCI bus, but without the driver there are no device nodes, and no program can use an NPU."
)
NOT_MOUNTED = Message(
    "driver.installed/not-mounted",
    summary="driver libraries and npu-smi missing from this container",
    detail="A container uses the driver of its host. The driver files must be mounted into the container.",
    hint="Recreate the container with the driver directories mounted, or with the ascend runtime.",
    pitfall="P009",
)
HALF_INSTALLED = Message(
    "driver.installed/incomplete",
    summary="driver installation incomplete: {paths} missing",
    detail="Modules or libraries of a driver were found, but not the file that its installer writes last.",
    hint="Reinstall the driver of the same HDK release as the firmware, and reboot. If it is in another directory, "
    "/etc/ascend_install.info must name that directory.",
    pitfall="P068",
)
WORKS_UNTIL_REBOOT = Sentence(
    "The modules that are loaded keep the NPUs working until the next boot, which may not find them. Without this file "
    "the driver version cannot be compared with CANN and firmware."
)
UNFINISHED = Message(
    "driver.installed/unfinished",
    summary="driver installation did not finish",
    detail="The installer notes in /etc/ascend_install.info that it has finished, and npu-smi does not find that note. "
    "Parts of the driver may be missing or of another release.",
    hint="Read the installer's log, /var/log/ascend_seclog/ascend_install.log, and reinstall the driver of the same "
    "HDK release as the firmware.",
    severity=Severity.WARNING,
)
MODULES_NOT_LOADED = Message(
    "driver.installed/not-loaded",
    summary="driver {version} is installed, but its kernel modules are not loaded",
    detail="The node was not rebooted after the installation, or a kernel update left it without modules of this "
    "driver.",
    hint="Reboot. If the modules are still not loaded, install the headers of the running kernel and reinstall the "
    "driver.",
    pitfall="P069",
)

# driver.firmware

INCOMPATIBLE = Message(
    "driver.firmware/incompatible",
    summary="driver and firmware are incompatible (npu-smi reports {flag})",
    detail="Only one of the two was upgraded, or the node was not rebooted in between.",
    hint="Install driver and firmware of the same HDK release and reboot. For an upgrade, install the firmware "
    "first; for a first installation, the driver first.",
    pitfall="P029",
)
OUT_OF_RANGE = Message(
    "driver.firmware/out-of-range",
    summary="firmware {version} does not match: the driver requires {accepted}",
    detail="Only one of the two was upgraded, or the node was not rebooted in between.",
    hint="Install driver and firmware of the same HDK release and reboot. For an upgrade, install the firmware "
    "first; for a first installation, the driver first.",
    pitfall="P029",
)

NOT_ACTIVATED = Message(
    "driver.firmware/not-activated",
    summary="firmware {installed} is installed but not activated: the NPUs run {running}",
    detail="New firmware starts only when the NPUs have lost power. A reboot is not always enough.",
    hint="Drain the node, then power it off and on, by the management controller of the server if need be.",
    severity=Severity.WARNING,
    pitfall="P029",
)

# driver.access

NO_ACCESS = Message(
    "driver.access/denied",
    summary="user {user} has no access to {count} NPU device {count:node|nodes}",
    detail="Every job of this user fails when it opens an NPU; npu-smi fails with -8005.",
    hint="Add {user} to the group {group} and log in again. This gives {user} access to all NPUs of the node.",
    pitfall="P015",
)
MODE_DENIES = Sentence(
    "{user} is already in the group {group}; the mode of the device nodes denies access. Set it to 0660."
)
GROUP_TOO_POWERFUL = Sentence(
    "Group {group} grants far more than access to the NPUs: do not add {user} to it. Give the device nodes the group "
    "of the driver's user, HwHiAiUser."
)
ADD_GROUP_IN_CONTAINER = Sentence(
    "Add group {gid} of the device nodes to the container's user: the number counts, not the name."
)
GROUP_OF_THE_NODES = Sentence("the group of the device nodes")
READ_AND_WRITE = Sentence("read and write access for {user}")
MODE_AND_GROUP = Sentence("mode {mode:04o}, group {group}")
NOT_READABLE = Sentence("not readable")
NODE_MISSING = Message(
    "driver.access/missing",
    summary="{count:device node|device nodes} {paths} missing",
    detail="The driver creates these nodes when its modules are loaded. Without them no NPU can be opened.",
    hint="Check whether all driver modules are loaded; a reboot loads them again.",
    pitfall="P031",
)

# driver.rebooted

NOT_REBOOTED = Message(
    "driver.rebooted/version-mismatch",
    summary="driver {installed} is installed, but kernel modules of {loaded} are loaded",
    detail="The driver was upgraded and the node was not rebooted. Most failures until the reboot are not NPU faults.",
    hint="Drain the node and reboot it.",
    pitfall="P031",
)
DRIVER_OF_THE_HOST = Sentence("a container uses the driver of its host")
VERSION_NOT_STATED = Sentence("{path} does not state the driver version")
MODULE_VERSION_NOT_STATED = Sentence("the loaded modules do not state their driver version")

# driver.next-boot

NEXT_KERNEL_WITHOUT_DRIVER = Message(
    "driver.next-boot/no-modules",
    summary="kernel {kernel} boots next and has no Ascend driver modules",
    detail="After the next reboot no NPU will be available.",
    hint="Build the modules for that kernel now: install its headers and reinstall the driver. Or keep the current "
    "kernel.",
    severity=Severity.WARNING,
    pitfall="P069",
)
INSTALLED_KERNELS = Sentence("installed kernels")
KERNELS = Sentence("with driver modules: {having}; without: {lacking}")
NO_KERNEL = Sentence("none")
MODULES_OF_OTHER_KERNEL = Sentence(
    "The running kernel {running} has no modules of the driver; {kernels} {count:has|have} them. A kernel update was "
    "installed without building the driver's modules for it."
)
BOOT_OR_BUILD = Sentence(
    "Boot {kernel}, or install the headers of the running kernel and reinstall the driver, which builds its modules."
)
NO_MODULES_ON_DISK = Sentence("No installed kernel has modules of the driver: they were not built, or removed.")
DKMS_WILL_BUILD = Sentence(
    "The driver is registered with DKMS, which builds its modules for a new kernel, but has not built them yet."
)
KERNEL_WITH_DRIVER = Sentence("{kernel}, with driver modules")
MODULES_ELSEWHERE = Sentence("no driver module found below {path}")

# driver.kernel-log

_MAY_BE_OVER = "A single event may be over. An NPU that repeats it is about to fail."
_DRAIN = "Check when it happened and whether jobs failed then. If it continues, drain the node."

HEARTBEAT_LOST = Message(
    "driver.kernel-log/heartbeat-lost",
    summary="NPU heartbeat lost (kernel log, {count} {count:time|times} in {days} days)",
    detail=_MAY_BE_OVER,
    hint=_DRAIN,
    severity=Severity.WARNING,
    pitfall="P052",
)
HCCS_FAILED = Message(
    "driver.kernel-log/hccs-link",
    summary="HCCS link failed (kernel log, {count} {count:time|times} in {days} days)",
    detail=_MAY_BE_OVER,
    hint=_DRAIN,
    severity=Severity.WARNING,
    pitfall="P052",
)
NPU_LOST = Message(
    "driver.kernel-log/npu-lost",
    summary="NPU dropped off the bus (kernel log, {count} {count:time|times} in {days} days)",
    detail=_MAY_BE_OVER,
    hint=_DRAIN,
    severity=Severity.WARNING,
    pitfall="P052",
)
NPU_RESET = Message(
    "driver.kernel-log/npu-reset",
    summary="NPU reset (kernel log, {count} {count:time|times} in {days} days)",
    detail="The driver or an administrator reset it. An unplanned reset follows a fault.",
    hint=_DRAIN,
    severity=Severity.WARNING,
    pitfall="P052",
)
MEMORY_ERROR = Message(
    "driver.kernel-log/memory-error",
    summary="NPU memory error (kernel log, {count} {count:time|times} in {days} days)",
    detail=_MAY_BE_OVER,
    hint=_DRAIN,
    severity=Severity.WARNING,
    pitfall="P052",
)
PCIE_ERROR = Message(
    "driver.kernel-log/pcie-error",
    summary="fatal PCIe error (kernel log, {count} {count:time|times} in {days} days)",
    detail=_MAY_BE_OVER,
    hint=_DRAIN,
    severity=Severity.WARNING,
    pitfall="P052",
)
HARDWARE_ERROR = Message(
    "driver.kernel-log/hardware-error",
    summary="uncorrected hardware error reported by the processor (kernel log, {count} {count:time|times} in {days} "
    "days)",
    detail=_MAY_BE_OVER,
    hint=_DRAIN,
    severity=Severity.WARNING,
    pitfall="P052",
)
HUNG_IN_DRIVER = Message(
    "driver.kernel-log/hung-process",
    summary="process hung in the driver (kernel log, {count} {count:time|times} in {days} days)",
    detail=_MAY_BE_OVER,
    hint=_DRAIN,
    severity=Severity.WARNING,
    pitfall="P052",
)
NPU_FAULT = Message(
    "driver.kernel-log/npu-fault",
    summary="NPU fault reported by the driver (kernel log, {count} {count:time|times} in {days} days)",
    detail=_MAY_BE_OVER,
    hint=_DRAIN,
    severity=Severity.WARNING,
    pitfall="P052",
)
NO_SUCH_LINE = Sentence("no such line")
