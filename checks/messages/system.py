"""What the checks of the host say."""

from npudoctor.sdk import Message, Sentence, Severity

AT_LEAST = Sentence("{least} or more")

# system.memory

MEMORY_LOW = Message(
    "system.memory/low",
    summary="Host memory low: {available} of {usable} available",
    detail="When it runs out, the kernel kills the largest process: the job ends without a message.",
    hint="Find out which processes use it.",
    severity=Severity.WARNING,
)
MEMORY_IN_HUGE_PAGES = Message(
    "system.memory/huge-pages",
    summary="{free} of host memory reserved as huge pages that no program uses; {available} of {total} available",
    detail="Only programs that ask for huge pages can use this memory. All others run out of memory although it is not "
    "in use.",
    hint="Reserve only as many huge pages as programs use: lower vm.nr_hugepages now (`sysctl -w`) and in the file "
    "that sets it, or hugepages= on the command line of the kernel.",
    severity=Severity.WARNING,
    pitfall="P100",
)
FEW_HUGE_PAGES = Sentence("less than a quarter of the memory")
HUGE_PAGES = Sentence("{total} reserved, {used} used")
LEAST_AVAILABLE = Sentence("at least {size} available ({share:g} %)")
MEMORY_BELOW_CHIPS = Message(
    "system.memory/less-than-chips",
    summary="Host memory ({usable}) is less than the memory of all chips together ({chips})",
    hint="Enough for many jobs; checkpoints and offloading of large models may need more.",
    severity=Severity.INFO,
)
MEMORY_LIMIT = Sentence("limit of the control group")

# system.shm

_BUS_ERROR = "A job with data-loading workers ends with a bus error, or with `unable to open shared memory object`."
SHM_SMALL = Message(
    "system.shm/small",
    summary="{path} too small: {size}",
    detail=_BUS_ERROR,
    hint="Make it larger. It uses memory only for what it contains.",
    pitfall="P062",
)
SHM_NOT_MOUNTED = Message(
    "system.shm/not-mounted",
    summary="{path} not mounted",
    detail=_BUS_ERROR,
    hint="Mount a tmpfs on it. It uses memory only for what it contains.",
    pitfall="P062",
)
SHM_OF_CONTAINER = Sentence("Start the container again with more.")
SHM_SIZES = Sentence("at least {least}; at least {several} for several NPUs")
NOT_MOUNTED = Sentence("not mounted")

# system.limits

_HARD_LIMIT = "Raise the hard limit. It takes effect at the next login."
NOFILE_LOW = Message(
    "system.limits/nofile",
    summary="Limit on open files (ulimit nofile) too low: {limit}, required {least}",
    hint=_HARD_LIMIT,
    pitfall="P075",
)
NPROC_LOW = Message(
    "system.limits/nproc",
    summary="Limit on processes and threads (ulimit nproc) too low: {limit}, required {least}",
    hint=_HARD_LIMIT,
    pitfall="P094",
)
MEMLOCK_LOW = Message(
    "system.limits/memlock",
    summary="Limit on locked memory (ulimit memlock) too low: {limit}, required {least}",
    hint=_HARD_LIMIT,
)
RESTART_WITH_LIMIT = Sentence("Start the container again with a higher limit.")
SOFT_AND_HARD = Sentence("{soft} soft, {hard} hard")
SERVICE_LIMIT = Sentence("systemctl status $$  # the service or slice of this shell; TasksMax= in it is the limit")
PIDS_LOW = Message(
    "system.limits/pids",
    summary="Limit of the control group on processes and threads too low: {limit}, required {least}",
    detail="Starting a thread then fails with `Resource temporarily unavailable`.",
    hint="Raise the limit of the service, the pod or the container.",
    pitfall="P094",
)

# system.disk

DISKS_NOT_RECORDED = Sentence("the file systems that jobs write to are not in this recording")
SYSTEM_FILES = Sentence("the system")
HOME_FOLDER = Sentence("the home folder")
LOGS = Sentence("the logs")
COMPILED_OPERATORS = Sentence("compiled operators")
_DISK_FULL = "Used for {uses}. When it is full, jobs end with `No space left on device`, 107010, 100004."
DISK_SPACE_LOW = Message(
    "system.disk/space",
    summary="{path} almost full: {free} of {total} free",
    detail=_DISK_FULL,
    hint="Free some space.",
    pitfall="P065",
)
INODES_LOW = Message(
    "system.disk/inodes",
    summary="{path} almost out of inodes: {free} of {total} free",
    detail=_DISK_FULL,
    hint="Remove files that are not needed.",
    pitfall="P065",
)
DISK_READ_ONLY = Message(
    "system.disk/read-only",
    summary="{path} is mounted read-only",
    detail="Used for {uses}. Jobs end with `Read-only file system` as soon as they write there.",
    hint="Check the kernel log for an error of the disk, after which the kernel makes a file system read-only; repair "
    "it (fsck, xfs_repair) before it is mounted writable again.",
)
READ_ONLY_IN_CONTAINER = Sentence(
    "Mount a writable volume there, or name another folder: HOME, ASCEND_PROCESS_LOG_PATH, ASCEND_CACHE_PATH."
)
REMOVE_LOGS_FIRST = Sentence("Free some space; remove old logs of CANN first.")
SPACE_WANTED = Sentence("at least {size} free, and {percent:g} % of bytes and inodes")
FREE_OF = Sentence("{free} of {total} free")
FREE_INODES_OF = Sentence("{free} of {total} inodes free")
LOGS_LARGE = Message(
    "system.disk/logs",
    summary="Logs in {path} use {size}",
    hint="Remove those of jobs that have ended.",
    severity=Severity.WARNING,
    pitfall="P057",
)
MORE_THAN = Sentence("more than {size}")
FILES_AND_SIZE = Sentence("{count} {count:file|files}, {size}")

# system.platform

NOTHING_REQUIRES_A_SYSTEM = Sentence("no NPU and no Ascend software found")
PLATFORM_NOT_RECORDED = Sentence("neither the kernel release nor the C library is known")
KERNEL_NOT_RECOMMENDED = Message(
    "system.platform/kernel",
    summary="Kernel {kernel} is not one that the driver is recommended for",
    hint="No action is required as long as the driver's modules load.",
    severity=Severity.INFO,
)
GLIBC_OLD = Message(
    "system.platform/glibc",
    summary="torch_npu {version} requires glibc {least} or newer; found {glibc}",
    detail="Importing it fails with: version `GLIBC_{least}' not found.",
    hint="Use a newer system, a container image with one, or a torch_npu with wheels for this one.",
    severity=Severity.WARNING,
    pitfall="P039",
)
GLIBC_OR_NEWER = Sentence("glibc {least} or newer")

# system.cpu

GOVERNOR = Message(
    "system.cpu/governor",
    summary="CPU governor is {governors}, not performance",
    hint="Set it to performance for training.",
    severity=Severity.INFO,
    pitfall="P090",
)
HUGE_PAGES_OFF = Message(
    "system.cpu/huge-pages",
    summary="Transparent huge pages disabled",
    severity=Severity.INFO,
    pitfall="P090",
)
ALWAYS_OR_MADVISE = Sentence("always or madvise")
THREADS_INVALID = Message(
    "system.cpu/threads-invalid",
    summary="{name} invalid: {problem}",
    detail="OpenMP ignores it with a message and starts one thread for each CPU, in every rank.",
    severity=Severity.WARNING,
)
THREADS_MANY = Message(
    "system.cpu/threads",
    summary="{name}={value} for {ranks} {ranks:rank|ranks} exceeds the {cpus} CPUs of this host",
    hint="At most {most} for a job on all NPUs.",
    severity=Severity.INFO,
    pitfall="P090",
)
THREADS_IN_ALL = Sentence("{cpus} threads in all")

# system.conntrack

CONNTRACK_FULL = Message(
    "system.conntrack/full",
    summary="Connection tracking table {used:.0f} % full",
    detail="When it is full, new connections are dropped: `nf_conntrack: table full, dropping packet`.",
    hint="Raise the limit, and find out which process opens so many connections.",
    severity=Severity.WARNING,
    pitfall="P079",
)
BELOW_SHARE = Sentence("below {count} ({share:g} % of the maximum)")

# system.clock

CLOCK_OF_HOST = Sentence("a container uses the clock of its host")
CLOCK_UNKNOWN = Sentence("the time service does not report whether the clock is synchronised")
_TIME_SERVICE = "Enable chrony or another time service. Logs of several nodes cannot be compared otherwise."
CLOCK_UNSYNCHRONISED = Message(
    "system.clock/unsynchronised", summary="Clock not synchronised", hint=_TIME_SERVICE, severity=Severity.INFO
)
NO_TIME_SERVICE = Message(
    "system.clock/no-time-service",
    summary="Clock not synchronised: no time service enabled",
    hint=_TIME_SERVICE,
    severity=Severity.INFO,
)

# system.rights

HIDDEN = Message(
    "system.rights/hidden",
    summary="{user} is not root and cannot see {hidden}",
    hint="Checks that need one of these are skipped and say so. No other check needs root.",
    severity=Severity.INFO,
)
OF_THE_HOST = Sentence(
    "Checks that need one of these are skipped and say so. Root of the host sees them with `npudoctor check` there."
)
NPU_PORTS = Sentence("NPU network ports (hccn_tool)")
KERNEL_LOG = Sentence("the kernel log")
FIREWALL = Sentence("the firewall")
OTHER_USERS = Sentence("processes and sockets of other users")
