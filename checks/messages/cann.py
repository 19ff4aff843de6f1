"""What the checks of CANN say."""

from npudoctor.sdk import Message, Sentence, Severity

AS_IN_THE_PACKAGE = Sentence("{places}: as in the name of the package file")
OF_THE_PACKAGES = Sentence("FOLDER: of the packages")
CANN_IN = Sentence("CANN {version} in {root}")
CANN_OF_UNKNOWN_VERSION = Sentence("CANN of unknown version in {root}")
ONE_CANN = Sentence("one CANN")
A_CANN = Sentence("a CANN installation")
LINKS_TO_MISSING = Sentence("links to missing {target}")

# cann.installed

NOT_INSTALLED = Message(
    "cann.installed/missing",
    summary="CANN toolkit not found",
    detail="torch_npu loads its libraries (libhccl.so, libascendcl.so). Without them `import torch_npu` fails.",
    hint="Install toolkit and operator package of the same CANN release, one that matches torch_npu: by the first "
    "command from a folder, with preview and undo, or by the others. If CANN is in an unusual directory, source its "
    "set_env.sh and check again.",
)
INSTALL_RELEASE = Sentence(
    "Install toolkit and operator package of CANN {releases}, which matches the installed torch_npu: by the first "
    "command from a folder, with preview and undo, or by the others. If CANN is in an unusual directory, source its "
    "set_env.sh and check again."
)
NO_CANN_THERE = Sentence("{path} (no CANN installation)")
UNREADABLE = Sentence("not readable for this user")
HALF_REMOVED = Message(
    "cann.installed/incomplete",
    summary="CANN installation incomplete: {path} links to missing {target}",
    detail="An uninstall or an upgrade left the link behind. set_env.sh sets paths that do not exist.",
    hint="Reinstall the toolkit, or remove the rest of it.",
    pitfall="P092",
)
WRONG_ARCHITECTURE = Message(
    "cann.installed/wrong-architecture",
    summary="CANN is built for {arch}; this machine is {machine}",
    detail="None of its libraries can be loaded.",
    hint="Install the package whose name ends in linux-{machine}.run.",
)
BROKEN_LINK = Message(
    "cann.installed/broken-link",
    summary="{path} {count:links|link} to missing {target}",
    detail="Scripts and profiles may use {count:this link|these links}. Remaining installation: {remaining}.",
    hint="Link {count:it|them} to {root}, or remove {count:it|them}.",
    severity=Severity.WARNING,
    pitfall="P092",
)
BROKEN_LINK_OF_JOB = Sentence("The job's environment variables use this link. Remaining installation: {remaining}.")

# cann.environment

SOURCES_WHAT_IS_GONE = Sentence(
    "{lines} {count:sources|source} {script}, which does not exist. Let {count:it|them} source the script of the CANN "
    "that is installed: {installed}."
)
INVALID_PATH = Message(
    "cann.environment/invalid-path",
    summary="{variable} {count:does|do} not name a CANN installation: {path}",
    detail="It was removed or moved, or this user cannot read it. CANN fails with E20002 or finds no operators.",
    hint="Source the set_env.sh of the CANN that is installed: {installed}.",
    pitfall="P066",
)
NOT_LOADED = Message(
    "cann.environment/not-loaded",
    summary="CANN environment not loaded: {script} was not sourced",
    detail="Variables set by set_env.sh are missing from {environment}. `import torch_npu` fails: libhccl.so or "
    "libascendcl.so not found.",
    hint="Source the script in the shell, profile or service that starts the job, after everything else that sets "
    "these variables.",
    pitfall="P001",
)
INCOMPLETE = Message(
    "cann.environment/incomplete",
    summary="CANN environment incomplete: {variables}",
    detail="Variables set by set_env.sh were replaced in {environment} instead of extended.",
    hint="Source the script in the shell, profile or service that starts the job, after everything else that sets "
    "these variables.",
    pitfall="P037",
)
THIS_PROCESS = Sentence("this process")
ENVIRONMENT_OF = Sentence("the environment of the job ({whose})")
LIBRARIES_NOT_FOUND = Sentence(
    "Variables set by set_env.sh are missing from {environment}. `import torch_npu` fails: libhccl.so or "
    "libascendcl.so not found."
)
STARTUP_FILE_NOT_READ = Sentence(
    "{path} sources the script, but this environment did not read that file: services, cron, `docker exec` and "
    "commands over ssh read no startup file, or another one. Source the script where the job starts."
)
OVERWRITTEN_LATER = Sentence(
    "{path} sources the script in line {line}, but a later line or a later file overwrites these variables. Extend "
    "them there: `export LD_LIBRARY_PATH=/my/libraries:$LD_LIBRARY_PATH`."
)
OPTIONAL_MISSING = Message(
    "cann.environment/optional",
    summary="optional parts of the CANN environment missing: {variables}",
    severity=Severity.INFO,
)
NOTHING_SOURCED = Sentence("no set_env.sh is sourced")
ALSO = Sentence("also {entries}")
BELOW = Sentence("below {root}: {entries}")

# cann.single

MIXED = Message(
    "cann.single/mixed",
    summary="environment variables name {count} different CANN installations",
    detail="The first directory of a list wins, separately for each library. The job loads a mixture.",
    hint="Start a clean shell and source exactly one set_env.sh. Check profiles and images for a second one.",
    severity=Severity.WARNING,
    pitfall="P022",
)
REMOVED_PASSED_OVER = Sentence(
    "All but one were removed, and their folders in a list are passed over. An installation there would be mixed into "
    "the job."
)
NOT_INSTALLED_CANN = Sentence("{root} (not an installed CANN)")
NOT_DEFAULT = Message(
    "cann.single/not-default",
    summary="job uses {active}, but {link} links to {default}",
    severity=Severity.INFO,
)

# cann.libraries

STUBS_FIRST = Message(
    "cann.libraries/stubs",
    summary="stub libraries in {directory} come before the CANN libraries",
    detail="devlib holds empty libraries, for linking on machines without an NPU. A job that loads them finds no "
    "NPU, or fails with undefined symbols.",
    hint="Remove the directory from LD_LIBRARY_PATH, or put it after lib64.",
    pitfall="P037",
)
DEVLIB_LAST = Sentence("lib64 before devlib")
LIBRARY_DAMAGED = Message(
    "cann.libraries/damaged",
    summary="damaged {count:library|libraries}: {libraries} ({problem})",
    detail="An interrupted copy or installation, or a full disk, leaves such files. The import of torch_npu fails with "
    "`file too short` or `invalid ELF header`.",
    hint="Reinstall the package that provides {count:it|them}.",
    pitfall="P001",
)
FOLDER_OF_ANOTHER_CANN = Sentence(
    "Remove {folder} from LD_LIBRARY_PATH: it belongs to CANN {version}, which is not the CANN of this environment."
)
WHOLE_LIBRARY = Sentence("a complete library")
WRONG_MACHINE = Message(
    "cann.libraries/wrong-architecture",
    summary="{count:library|libraries} for another architecture: {libraries}",
    detail="The dynamic linker skips libraries for another architecture, and then finds none.",
    hint="Install the package whose name ends in linux-$(arch).run.",
    pitfall="P001",
)
THIS_MACHINE = Sentence("for this architecture")
LIBRARY_MISSING = Message(
    "cann.libraries/missing",
    summary="{count:library|libraries} not found on the library path: {libraries}",
    detail="`import torch_npu` fails with `cannot open shared object file`. The CANN environment is loaded, so the "
    "file is missing, or it is in a directory that set_env.sh does not add.",
    hint="Search for the file. If it does not exist, reinstall the package that provides it.",
    pitfall="P001",
)
LIBRARY_MISSING_FOR = Sentence(
    "Required by {library}. `import torch_npu` fails with `cannot open shared object file`. The CANN environment is "
    "loaded, so the file is missing, or it is in a directory that set_env.sh does not add."
)
ON_THE_PATH = Sentence("on the library path")
DRIVER_LIBRARY_MISSING = Message(
    "cann.libraries/driver-missing",
    summary="driver library {library} not found on the library path",
    detail="The CANN libraries load it and fail: `libascend_hal.so: cannot open shared object file`. LD_LIBRARY_PATH "
    "was replaced, or the driver directories are missing in /etc/ld.so.conf.d.",
    hint="Add the driver directories to LD_LIBRARY_PATH, after those of CANN.",
    pitfall="P037",
)
MIXED_LIBRARIES = Message(
    "cann.libraries/mixed",
    summary="CANN libraries are loaded from different directories: {libraries}",
    detail="Libraries of two releases, or a copy of one of them, fail with undefined symbols or silently behave "
    "differently.",
    hint="Start a clean shell, source exactly one set_env.sh, and remove other directories from LD_LIBRARY_PATH.",
    pitfall="P022",
)

# cann.ops

OPS_MISSING = Message(
    "cann.ops/missing",
    summary="operator package of CANN {version} not installed",
    detail="Only the toolkit is installed. The first operator that a model calls fails with `Cannot find bin of op`.",
    hint="Install the operator package for this chip in the version of the toolkit, into the same directory.",
    pitfall="P008",
)
KERNELS_MISSING = Message(
    "cann.ops/kernels-missing",
    summary="operator kernels of CANN {version} missing",
    detail="The operator package is recorded as installed, but its kernels were removed. The first operator that a "
    "model calls fails with `Cannot find bin of op`.",
    hint="Reinstall the operator package for this chip in the version of the toolkit, into the same directory.",
    pitfall="P008",
)
PACKAGE_AND_KERNELS = Sentence("the package and its kernels")
RECORDED_WITHOUT_KERNELS = Sentence("recorded, but without kernels")
WRONG_CHIP = Message(
    "cann.ops/wrong-chip",
    summary="operator package for {chips} does not match chip {chip}",
    detail="Operators for another chip cannot run on this one: every kernel lookup fails.",
    hint="Install the operator package for {chip}. Packages for different chips cannot share one directory.",
    pitfall="P034",
)
OPS_MISMATCH = Message(
    "cann.ops/version-mismatch",
    summary="operator package {operators} does not match toolkit {toolkit}",
    detail="The packages of one CANN must be upgraded together. Kernels of another release are not found, or fail.",
    hint="Install the operator package in the version of the toolkit.",
    pitfall="P059",
)

# cann.driver

CANN_VERSION_UNKNOWN = Sentence("CANN version unknown")
DRIVER_VERSION_UNKNOWN = Sentence("driver version unknown: version.info not found, and npu-smi does not report it")
DRIVER_TOO_OLD = Message(
    "cann.driver/too-old",
    summary="driver {driver} is too old: CANN {cann} requires {required}",
    detail="CANN calls functions that this driver does not have: 207000, EE1015, `feature is not supported`.",
    hint="Upgrade driver and firmware (this CANN is paired with {paired}) and reboot, or use an older CANN.",
    pitfall="P030",
)
UPGRADE_ON_THE_HOST = Sentence(
    "On the host, upgrade driver and firmware (this CANN is paired with {paired}) and reboot; or use an image with an "
    "older CANN."
)
DRIVER_NOT_LISTED = Message(
    "cann.driver/not-listed",
    summary="driver {driver} with CANN {cann}: not in the compatibility tables of {as_of}",
    severity=Severity.INFO,
)

# cann.nnal

NNAL_NOT_REQUIRED = Sentence("NNAL not required (no ATB package or variable found)")
NNAL_MISSING = Message(
    "cann.nnal/missing",
    summary="NNAL not installed, but required by {package}",
    detail="Loading ATB fails with `libatb.so: cannot open shared object file`.",
    hint="Install NNAL in the version of the toolkit, and source its set_env.sh after that of the toolkit.",
    severity=Severity.WARNING,
    pitfall="P013",
)
NNAL_PATH_INVALID = Message(
    "cann.nnal/invalid-path",
    summary="NNAL not found: {variable} names {path}",
    detail="Loading ATB fails with `libatb.so: cannot open shared object file`.",
    hint="Install NNAL in the version of the toolkit, and source its set_env.sh after that of the toolkit.",
    severity=Severity.WARNING,
    pitfall="P013",
)
ATB_DIRECTORY = Sentence("the directory of an ATB installation")
NNAL_NOT_LOADED = Message(
    "cann.nnal/not-loaded",
    summary="NNAL environment not loaded, but required by {package}",
    detail="Its set_env.sh was not sourced. Loading ATB fails with `libatb.so: cannot open shared object file`.",
    hint="Source its set_env.sh after that of the toolkit.",
    severity=Severity.WARNING,
    pitfall="P013",
)
ATB_ABI = Message(
    "cann.nnal/abi-mismatch",
    summary="C++ ABI mismatch: ATB is built for ABI {atb}, torch for {torch}",
    detail="Loading ATB fails with undefined symbols that begin with _ZN3atb.",
    hint="Source the set_env.sh of NNAL with the ABI of this torch.",
    pitfall="P014",
)
NNAL_MISMATCH = Message(
    "cann.nnal/version-mismatch",
    summary="NNAL {nnal} does not match toolkit {toolkit}",
    detail="Loading ATB fails with undefined symbols, or models give wrong results.",
    hint="Install NNAL in the version of the toolkit.",
    severity=Severity.WARNING,
    pitfall="P014",
)
