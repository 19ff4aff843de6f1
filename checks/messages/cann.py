"""What the checks of CANN say."""

from npudoctor.sdk import Message, Sentence, Severity

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
    hint="Install toolkit and operator package of the same CANN release, one that matches torch_npu. If CANN is in an "
    "unusual directory, source its set_env.sh and check again.",
)
INSTALL_RELEASE = Sentence(
    "Install toolkit and operator package of the same CANN release: {releases}, to match the installed torch_npu. If "
    "CANN is in an unusual directory, source its set_env.sh and check again."
)
INSTALL_RELEASE_OR_NEWER = Sentence(
    "Install toolkit and operator package of the same CANN release: {releases} or newer, to match the installed "
    "torch_npu. If CANN is in an unusual directory, source its set_env.sh and check again."
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
    summary="{path} links to missing {target}",
    detail="Scripts and profiles may use this link. Remaining installation: {remaining}.",
    hint="Link it to {root}, or remove it.",
    severity=Severity.WARNING,
    pitfall="P092",
)
BROKEN_LINK_OF_JOB = Sentence("The job's environment variables use this link. Remaining installation: {remaining}.")

# cann.environment

INVALID_PATH = Message(
    "cann.environment/invalid-path",
    summary="{variable} does not name a CANN installation: {path}",
    detail="It was removed or moved, or this user cannot read it. CANN fails with E20002 or finds no operators.",
    hint="Source the set_env.sh of the CANN that is installed: {installed}.",
    pitfall="P066",
)
NOT_LOADED = Message(
    "cann.environment/not-loaded",
    summary="CANN environment not loaded: {script} was not sourced",
    detail="Variables set by set_env.sh are missing ({whose}). `import torch_npu` fails: libhccl.so or "
    "libascendcl.so not found.",
    hint="Source the script in the shell, profile or service that starts the job, after everything else that sets "
    "these variables.",
    pitfall="P001",
)
INCOMPLETE = Message(
    "cann.environment/incomplete",
    summary="CANN environment incomplete: {variables}",
    detail="Variables set by set_env.sh were replaced later instead of extended ({whose}).",
    hint="Source the script in the shell, profile or service that starts the job, after everything else that sets "
    "these variables.",
    pitfall="P037",
)
LIBRARIES_NOT_FOUND = Sentence(
    "Variables set by set_env.sh are missing ({whose}). `import torch_npu` fails: libhccl.so or libascendcl.so not "
    "found."
)
STARTUP_FILE_NOT_READ = Sentence(
    "{path} sources the script, but this environment did not read that file: services, cron, `docker exec` and "
    "commands over ssh read no startup file, or another one. Source the script where the job starts."
)
OVERWRITTEN_LATER = Sentence(
    "{path} sources the script in line {line}, but a later line or a later file overwrites these variables. Extend "
    "them there: `export LD_LIBRARY_PATH=…:$LD_LIBRARY_PATH`."
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
NOT_INSTALLED_CANN = Sentence("{root} (not an installed CANN)")
NOT_DEFAULT = Message(
    "cann.single/not-default",
    summary="job uses {active}, but {link} links to {default}",
    severity=Severity.INFO,
)
