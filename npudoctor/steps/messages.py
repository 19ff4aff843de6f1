"""What the steps of fixes say: previews, what forbids a step, and what failed."""

from npudoctor.messages import Sentence

# any step

NOT_WRITABLE = Sentence("{path} is not writable by {user}")
TIMED_OUT = Sentence("`{command}` timed out after {seconds:g} s")
FAILED = Sentence("`{command}` failed: {problem}")
EXIT_STATUS = Sentence("exit status {status}")
RUNS = Sentence("$ {command}\n")

# files

MODE_CHANGES = Sentence("{path}: mode {old:04o} → {new:04o}\n")
NEW_EMPTY_FILE = Sentence("{path}: new empty file\n")
NEW_FOLDER = Sentence("{path}: new folder, mode {mode:04o}\n")
FOLDER_REMOVED = Sentence("{path}: folder removed if empty\n")
LINK_CHANGES = Sentence("link {path}: {old} → {new}\n")
NOT_A_LINK = Sentence("{path} is not a link")
WRITABLE_BY_ALL = Sentence("{path} is writable by all users; choose a path in a folder that only root can write")
TOO_LARGE = Sentence("{path} is larger than {limit} MiB")

# owners of files

SITE = Sentence("this site")
FILE_SYSTEM = Sentence("the file system")
ANOTHER_PROGRAM = Sentence("another program")
OWNED_BY_SITE = Sentence("{path} belongs to this site's management: [managed] paths has {pattern}")
OWNED_BY_HEADER = Sentence("{path} is managed by {owner} (line {line}: {text})")
NOT_TO_BE_EDITED = Sentence("{path} is written by another program (line {line}: {text})")
OWNED_BLOCK = Sentence("lines {first} to {last} of {path} are managed by another program ({owner})")
OWNED_BY_PACKAGE = Sentence("{path} belongs to package {package}")
IMMUTABLE = Sentence("{path} is immutable ({flag})")
OTHER_MACHINE = Sentence("the tools of this machine do not know the files of another one")
READ_ONLY = Sentence("{path} is on a file system that is mounted read-only ({mount})")

# packages of CANN

PACKAGE_RUNS = Sentence("SHA-256 {sha256}\n$ {command}\n")
PACKAGE_CHANGED = Sentence("{path} has changed since its SHA-256 was shown")
SCRIPT_NOT_TRUSTED = Sentence("root would source {script}, but {problem}")
PACKAGE_NOT_TRUSTED = Sentence("root does not run a package that others can change: {problem}")
NOT_PROVED = Sentence("the installer ended without an error, but {path} does not say version {version}")
STILL_INSTALLED = Sentence("the uninstaller ended, but {path} is still there")

# packages

PACKAGE_CHANGES = Sentence("{name}: {old} → {new}\n")
NOT_INSTALLED = Sentence("not installed")
REMOVED = Sentence("removed")
NOT_KEPT = Sentence("the files of replaced packages could not be kept: {problem}")
NO_ANSWER = Sentence("no answer")
RUN_AS = Sentence("{path} belongs to {user}; run this as {user}")
PACKAGES_UNKNOWN = Sentence("{path} does not report which packages are installed")

# environments

ENVIRONMENT_IS_THERE = Sentence("{path} is not empty")
ENVIRONMENT_REMOVED = Sentence("{path}: the environment removed with all that is in it\n")
ENVIRONMENT_CHANGED = Sentence("{path} has packages that were added since: {names}. Remove it by hand")
ENVIRONMENT_IN_USE = Sentence("process {pid} has files of {path} loaded; end it first")

# kernel settings

SETTING_CHANGES = Sentence("{key}: {old} → {new}\n")
EMPTY = Sentence("(empty)")
SETTING_OF_ROOT = Sentence("{key} can only be set by root")
SETTING_OF_HOST = Sentence("{key} is read-only here; set it on the host of this container")
SETTING_REJECTED = Sentence("the kernel rejects {key}={value}: {problem}")

# commands

COMMAND_NOT_FOUND = Sentence("{command} not found")

# groups

MEMBERS_CHANGE = Sentence("group {group}: {old} → {new}\n")
NO_MEMBERS = Sentence("(no members)")
MEMBERS_BY_ROOT = Sentence("only root can change the members of a group")
NO_GROUP = Sentence("group {group} not found in /etc/group")

# accounts

ACCOUNTS_BY_ROOT = Sentence("only root can change users and groups")
GROUP_CHANGED = Sentence("group {name} has another number or members by now, and stays")
USER_CHANGED = Sentence("user {name} has other numbers by now, and stays")
USER_OF_DRIVER = Sentence("the driver is installed ({path}) and needs user {name}")
USER_BUSY = Sentence("user {name} has processes, such as {pid}; end them first")

# addresses of NPUs

ADDRESSES_BY_ROOT = Sentence("only root can set addresses of NPUs")
ADDRESS_UNKNOWN = Sentence("hccn_tool does not say the address of device {device}")
ADDRESS_CHANGED = Sentence("device {device} has another address by now, which stays")
ADDRESS_NOT_SET = Sentence("hccn_tool ended, but {key} of device {device} is not {value}")

# packages of the system

PACKAGES_BY_ROOT = Sentence("only root can install packages of the system")
PACKAGES_CHANGED = Sentence("in another version than the one that was installed, and left alone: {names}")
PACKAGES_NEEDED = Sentence("they cannot be removed alone: {problem}")
PACKAGES_NOT_PROVED = Sentence("the package manager ended, but not all are as they should be: {names}")

# mounts

SIZE_CHANGES = Sentence("{path}: {old} MiB → {new} MiB\n")
REMOUNT_BY_ROOT = Sentence("only root can remount {path}")
NOT_MOUNTED = Sentence("{path} is not mounted")

# processes

PROCESS_ENDS = Sentence("process {pid} will be ended: {what}\n")
PROCESS_OF = Sentence("process {pid} belongs to {user}")
PROCESS_LEFT_ALONE = Sentence("process {pid} belongs to {user} and is left alone")
UNKNOWN_USER = Sentence("an unknown user")
DOES_NOT_END = Sentence("process {pid} does not end: it is waiting in the kernel, probably for the driver")

# logs

FILES_REMOVED = Sentence("{count} {count:file|files} removed, {size} MiB:\n{listed}")

# systemd

SERVICE_CHANGES = Sentence("{name}: {old} → {new}\n")
AT_BOOT = Sentence("starts at boot")
NOT_AT_BOOT = Sentence("does not start at boot")
RUNNING = Sentence("running")
NOT_RUNNING = Sentence("not running")
NO_SYSTEMD = Sentence("systemctl not found: no systemd on this system")
UNITS_OF_ROOT = Sentence("{path} is only writable by root")
MASKED = Sentence("{name} is masked; run systemctl unmask {name}")

# Signatures

NO_SIGNATURE = Sentence("no signature beside it")
SIGNATURE_WANTED = Sentence("{path} has no signature beside it, and --signed-by asks for one")
BAD_SIGNATURE = Sentence("{signature} is no good signature of {path}: {problem}")
SIGNER_UNKNOWN = Sentence("{signature} is a signature of it, and who signed is not verified (--signed-by FILE)")
SIGNED_BY = Sentence("{signature} is verified with {authority}; {revoked}")
NOT_REVOKED = Sentence("not revoked by {path}")
REVOCATION_UNKNOWN = Sentence("revocation is not checked")
CANNOT_VERIFY = Sentence("{signature} cannot be verified: {why}")
NOT_VERIFIED = Sentence("{signature} is not verified: {why}")
TOOL_MISSING = Sentence("{tool} is not installed")
NO_KEYRING = Sentence("--signed-by names no keyring")
TOOL_FAILED = Sentence("{tool} failed")
