"""What the fixes say, by fix: why one is refused, and what to know before it is applied."""

from npudoctor.sdk import Sentence

# cann.install

NO_CANN = Sentence("no CANN package for this node in the folders; `npudoctor packages FOLDER` says why")
CHOOSE_CANN = Sentence("no single CANN version that fits this node in the folders; there are {known}")
CANN_FOLDER_UNKNOWN = Sentence("the folder into which CANN {version} installs itself is not known")
TOOLKIT_MISSING = Sentence("the toolkit of CANN {version} is neither installed nor in the folders: {published}")
CANN_LEFTOVER = Sentence("{path} exists without the record of a whole installation; remove it or name another prefix")
TWO_PACKAGES = Sentence("two packages for {part}: {names}")
WITHOUT_OPERATORS = Sentence("No operators (kernels) of these chips for CANN {version} are in the folders.")
LICENCE = Sentence("`--quiet` accepts the vendor's licence.")
PACKAGE_NOT_TRUSTED = Sentence("root does not run a package that others can change: {problem}")
NO_SIGNATURE = Sentence("{name} has no signature file: its SHA-256 finds damage, not forgery.")
SIGNATURE = Sentence("{name}: {said}.")

# cann.switch

NAME_CANN = Sentence("no CANN given; installed are {known}")
NOT_ONE_CANN = Sentence("not one installed CANN: {asked!r}; installed are {known}")
NO_USUAL_LINK = Sentence("{path} is not below a prefix with the usual link of CANN")
LINK_IS_FOLDER = Sentence("{path} is a folder, not a link; only the package's own uninstaller may change it")
NO_OWN_SCRIPT = Sentence("{path} has no set_env.sh of its own: up to CANN 8.3 the script follows the usual link")
NOT_A_PATH = Sentence("not an absolute path of plain letters: {path!r}")
CANN_NOT_TRUSTED = Sentence("root would source {script}, but {problem}")
MODULE_RELEASES = Sentence("Requires Environment Modules 4.6 or Lmod 8.6: they run set_env.sh when it is loaded.")
SHELLS_KEEP_CANN = Sentence("Shells and services that sourced a CANN keep that one until they source it again.")
OTHERS_NOT_VISIBLE = Sentence("Whether processes of other users use the old version is not known.")

# container.run-command

NAME_DEVICES = Sentence("no device given")
NOT_A_DEVICE_NODE = Sentence("not a device node: {path!r}")
NOT_AN_IMAGE = Sentence("not the name of an image: {name!r}")
NOT_A_GROUP_ID = Sentence("not a group id: {group!r}. `stat -c %g /dev/davinci_manager` prints it")
NOT_A_PURPOSE = Sentence("not a purpose: {purpose!r}; expected one-node, several-nodes or inference")
WITH_NETWORK = Sentence(
    "For a job on several nodes or an inference stack: with /etc/hccn.conf, hccn_tool and the network of the host "
    "(`--set purpose=one-node` leaves them out)."
)
PLAIN = Sentence("with plain {engine}:\n{text}")
OF_CONTAINER = Sentence("for {name}, IMAGE and other options as before:\n{text}")
NOT_RUNNING = Sentence("no running container of this host is called {names}")
ASCEND_RUNTIME = Sentence("or with the Ascend runtime:\n{text}")
COMPOSE = Sentence("or with compose:\n{text}")
ASCEND_COMPOSE = Sentence("or with compose and the Ascend runtime:\n{text}")
KUBERNETES = Sentence("or in Kubernetes:\n{text}")

# container.runtime

DOCKER_OF_HOST = Sentence("Docker's settings are those of the host, not of this container")
NO_DOCKER = Sentence("no Docker here, and no configuration of containerd")
NOT_AN_ENGINE = Sentence("engine is docker or containerd, not {name!r}")
NO_SETTINGS = Sentence("{path} is missing: containerd runs with its built-in settings; write them there first")
NO_CRI = Sentence("{path} disables the plugin cri: containerd starts containers for Docker here, not for Kubernetes")
NOT_TOML = Sentence("{path} is not what containerd reads: {problem}")
OLD_CONTAINERD = Sentence("{path} is of version {version}; only 2 and 3 are changed")
IMPORTS_UNKNOWN = Sentence("which files {path} imports is not known: {pattern}")
SETTINGS_NOT_TRUSTED = Sentence("containerd reads {path} as root, but {problem}")
OTHER_DEFAULT = Sentence("{path} sets the default runtime in a way that is not understood; change it by hand")
CANNOT_ADD = Sentence("the runtime cannot be added to {path} without changing other settings; add it by hand")
BY_NPUDOCTOR = Sentence("# added by npudoctor fix container.runtime")
RESTART_CONTAINERD = Sentence(
    "containerd reads the file after `systemctl restart containerd`: running containers go on, and none is started, "
    "stopped or entered until it is back. npudoctor does not restart it."
)
AFTER_RESTART = Sentence("only visible after containerd is restarted")
RUNTIME_CLASS = Sentence(
    "A pod uses it by `runtimeClassName: ascend`, after a RuntimeClass ascend with the handler ascend is made."
)
NO_RUNTIME = Sentence("the Ascend Docker runtime is not installed: {path}")
RUNTIME_NOT_TRUSTED = Sentence("Docker would run {path} as root, but {problem}")
BAD_SETTINGS = Sentence("{path} is not what Docker reads: JSON with names and values")
NAMED_TWICE = Sentence("{path} has {name!r} twice in one object; remove one of them first")
OTHER_RUNTIME = Sentence("{path} has a runtime ascend with another path already; remove it there first")
RELOAD_DOCKER = Sentence(
    "Docker reads the file after `systemctl reload docker`, which stops no container; a restart stops all of them "
    "unless live-restore is set. npudoctor does neither."
)
AFTER_RELOAD = Sentence("only visible after Docker is reloaded")
EVERY_CONTAINER = Sentence("As the default runtime it starts every new container, also those without NPUs.")

# driver.grant-access

GROUP_OF_CONTAINER = Sentence("the user of a container gets the group when the container starts")
NAME_USER = Sentence("no user given")
GROUP_WITHOUT_NAME = Sentence("the group of the device nodes has no name here")
NOT_A_NAME = Sentence("not a valid user or group name: {names}")
GROUP_TOO_POWERFUL = Sentence("group {group} grants far more than access to the NPUs")
OPENS_EVERY_NPU = Sentence(
    "This gives the user access to every NPU of the node, regardless of any isolation by a scheduler."
)
AT_NEXT_LOGIN = Sentence("Takes effect at the next login.")
AT_LOGIN_OF_OTHER = Sentence("only visible at the next login of {user}")

# driver.user

USER_OF_HOST = Sentence("the user of the driver belongs to the host, not to this container")
NOT_AN_ID = Sentence("not a number from 1 to 65533: {number}")
OF_DIRECTORY = Sentence(
    "user {name} comes from a directory service ({services}); its administrator decides its numbers"
)
ID_IS_TAKEN = Sentence("{what} {number} belongs to {owner}")
DIRECTORY_SILENT = Sentence("accounts also come from {services}, which getent did not answer for: {problem}")
HOME_STAYS = Sentence("{path} exists and stays as it is, with its owner.")
SAME_EVERYWHERE = Sentence("Use the same numbers on all nodes: images and shared folders know only numbers.")

# env.profile, env.visible-devices

SCOPES = Sentence("scope must be user, system, python or file, and shell one of {shells}")
OF_ONE_JOB = Sentence("{name} belongs to a launcher or to one job; a login file would change it for all jobs")
NOT_OURS = Sentence("npudoctor has not written {path}; choose a file that does not exist yet")
NOT_A_SETTING_LINE = Sentence("{line} is not a line that sets a variable of one job or sources CANN's script")
LINE_DOES_MORE = Sentence("{line} also does something else; edit it by hand")
NO_SET_ENV = Sentence("no CANN with a set_env.sh is installed")
SCRIPT_NOT_TRUSTED = Sentence("every login of this node would source {script}, but {problem}")
AT_ACTIVATION = Sentence("Takes effect when the environment is activated.")
VISIBLE_AT_ACTIVATION = Sentence("only visible once the environment is activated")
SOURCE_IT = Sentence("Nothing reads this file automatically: source it.")
NOTHING_READS_IT = Sentence("nothing reads this file automatically")
NO_HOME = Sentence("the home folder of {user} does not exist: {path}")
HOME_UNKNOWN = Sentence("the home folder of {user} is not known")
PREFIX_UNKNOWN = Sentence("the inspected Python does not report its environment")
NOT_AN_ENVIRONMENT = Sentence("{path} is neither a conda environment nor a venv")
OTHER_SHELL = Sentence("the login shell is {shell}, which does not read sh profiles; it requires its own file")
NOT_A_LIST = Sentence("not a list of chip numbers: {value!r}")
BEFORE_THE_JOB = Sentence("in the script of the job, or in the shell that starts it:\n{text}")
SET_BY_LINE = Sentence("set by {line}: {text}")
REMOVE_LINE = Sentence("to remove that line:\n{text}")

# hccl.reserve-ports

LAST_AT_BOOT = Sentence("{path} is applied last at boot, so its line is changed too.")
FOR_LATER_CANN = Sentence("{certain} for this CANN release; {more} for later ones, which use more ports.")
PORTS_UNKNOWN = Sentence("HCCL's ports are not known; set them with --set ports=60000-60031")
KERNEL_CHOOSES = Sentence("the kernel chooses HCCL's ports: {source}")
BAD_PORTS = Sentence("{where}: {problem}")

# npu.address

ADDRESSES_OF_HOST = Sentence("addresses of NPUs are set on the host, not in this container")
PORTS_OF_DIES = Sentence("ports of Ascend 950 have addresses for each die, which npudoctor does not set")
NAME_TABLE = Sentence("no table of addresses given")
NOT_IN_TABLE = Sentence("{path} has no row for host {name!r}")
TABLE_NOT_TRUSTED = Sentence("root sets no addresses from a table that others can change: {problem}")
NO_TABLE = Sentence("{path} is no table of addresses: its first line has to name columns of {columns}")
BAD_ROW = Sentence("{path} line {line}: {problem}")
OTHER_CELLS = Sentence("another number of cells than the first line")
NOT_A_DEVICE = Sentence("not the number of a device: {device!r}")
NOT_FOR_A_PORT = Sentence("no address that a port can have: {address}")
OUTSIDE = Sentence("{what} {address} is not in {network}, or not usable there")
TWICE_IN_TABLE = Sentence("{path} lines {first} and {second} have {what} twice")
DEVICE = Sentence("device {device} of one host")
DEVICE_FOR_ALL_AND_ONE = Sentence("the table has a device both with and without a host")
NO_SUCH_DEVICES = Sentence("devices {devices} of the table are not on this node, which has {known}")
ADDRESS_OF_ANOTHER = Sentence("device {device}, which is not in the table, has {address} already")
DEVICES_STAY = Sentence("Devices {devices} are not in the table and stay as they are.")
NO_FORMER_ADDRESS = Sentence(
    "Devices {devices} have no address yet: undo takes the new one out of /etc/hccn.conf, but the NPU keeps it until "
    "its next reset."
)
OTHERS_NEED_THEM = Sentence("Rank tables and other nodes that name the former addresses have to be changed, too.")

# npu.release

NAME_PROCESSES = Sentence("no process given")
PROCESS_GONE = Sentence("Process {pid} has already ended.")
START_UNKNOWN = Sentence("start time of process {pid} not visible, so it could be mistaken for another process")
NEVER_ENDED = Sentence("npudoctor never ends process {pid}")
HAS_LAUNCHER = Sentence("process {pid} was started by launcher {launcher}; end the job through its launcher")
COMMAND_OF_USER = Sentence("{command} (user {user})")
UNKNOWN = Sentence("unknown")

# npu.tls-off

IN_SERVICE = Sentence("a job is running, or may be running, on the NPUs")
LOWERS_SECURITY = Sentence("This lowers security: traffic between the NPUs of different nodes is no longer encrypted.")
CUTS_OFF = Sentence("Nodes whose NPUs have TLS enabled can no longer connect to this one.")
SWITCH_UNKNOWN = Sentence("TLS switch of device {device} not known")

# python.create

NOT_RESOLVED_HERE = Sentence("no set of packages found: {problem}")
ENVIRONMENT_EXISTS = Sentence("{path} exists; an environment that is there is changed by python.install-pair --python")
ACTIVATE_IT = Sentence("Jobs use it after `source {path}/bin/activate`, or by {path}/bin/python.")
MADE_BY_FIX = Sentence("npudoctor fix python.create has made this environment\n")
NO_PYTHON_FOR = Sentence(
    "no Python here and no wheels in the folders for which the tables have torch and torch_npu with CANN {cann}"
)
NOT_A_PYTHON = Sentence("{path} is not a working Python")

# python.install-pair, python.install-packages

NOT_A_VERSION = Sentence("not a version: {version!r}")
OTHER_PYTHON_FIRST = Sentence("CANN {cann} supports Python {supported}, and this one is {python}: another Python first")
NOT_IN_THE_INDEX = Sentence(
    "the package index has no torch_npu for this CANN and this Python; the tables know {release}, whose wheel is on "
    "{where}"
)
NO_PAIR_KNOWN = Sentence("no known torch and torch_npu pair for this CANN")
NO_CPU_BUILD = Sentence(
    "CPU build of torch {version} not found: on x86-64 it is on PyTorch's own CPU index. Add that index, or a mirror "
    "of it, to pip's configuration ({problem})"
)
RESOLVED_FIRST = Sentence("These are all packages that change: dependencies are resolved already, therefore --no-deps.")
OF_ANOTHER_PAIR = Sentence(
    "{title} {release} is published with the torch and torch_npu that are here, not with {torch} and {torch_npu}. "
    "Replace it as well, or install the CANN of its set and keep this pair: `{command}` shows its sets."
)
NOT_A_REQUIREMENT = Sentence("not a requirement: {text!r}")
NOT_A_FOLDER = Sentence("offline: {path} must be a folder with its absolute path")
WHEELS_NOT_TRUSTED = Sentence("offline: root does not install what others can change: {problem}")
NO_ANSWER = Sentence("{tool} did not answer")
OLD_PIP = Sentence(
    "this pip does not report what it would install; it requires pip 22.2 or newer (python.create uses the wheel of a "
    "pip that is in the folder of wheels)"
)
OF_THE_SYSTEM = Sentence("{path} belongs to the operating system; python.create makes an environment of its own")
NOT_WRITABLE = Sentence("{path} is not writable by {user}; run this as its owner")
OF_ANOTHER_USER = Sentence("{path} belongs to user {uid}; run this as that user, so that the files keep their owner")
IN_USE = Sentence("process {pid} has files of {path} loaded; end it first")
RUN_AS = Sentence("{path} belongs to {user}; run this as {user}: sudo -u {user} npudoctor fix")
BY_CONDA = Sentence("{name} was installed by conda; change it with conda")
EDITABLE = Sentence("{name} is an editable install of a source tree")
DISK_FULL = Sentence("keeping the replaced files requires {need} MiB; {free} MiB are free")

# service.install, service.remove

AT_NEXT_BOOT = Sentence("systemd is not running here: the service is enabled and starts at the next boot.")
SYSTEMD_OF_HOST = Sentence("systemd is not running in this container; install the service on its host")
NO_SYSTEMD = Sentence("systemctl not found: no systemd on this system")
BAD_COMMAND = Sentence("not usable in a unit: {command!r}. Give an absolute path without special characters")
NOT_A_COMMAND = Sentence("command not found: {command}")
COMMAND_NOT_TRUSTED = Sentence(
    "root would run {command} at every boot, but {problem}; install npudoctor where only root can write"
)
DAEMON_LACKS = Sentence("Python packages for the daemon missing: {packages}")

# system.packages

PACKAGES_OF_HOST = Sentence("the driver is built on the host, not in this container")
NO_PACKAGE_MANAGER = Sentence("apt-get, dnf and yum not found")
SYSTEM_NOT_IN_TABLE = Sentence("the packages that this operating system needs are not known")
NOT_A_PACKAGE = Sentence("not the name of a package: {name!r}")
PACKAGES_MISSING_HERE = Sentence("Needed and not installed: {names}. The rest is what they depend on.")
WOULD_CHANGE_OTHERS = Sentence(
    "installed packages would be upgraded or removed for it, which undo could not restore: {names}"
)
NOT_RESOLVED = Sentence("{tool} finds no solution: {problem}. Try after `{update}`")
NOTHING_RESOLVED = Sentence("{tool} names no package that it would install")

# system.limits

LIMITS_OF_CONTAINER = Sentence("the limits of a container are set when it starts: --ulimit, or the pod's runtime")
NAME_LIMITS = Sentence("no limit given")
BAD_LIMIT = Sentence("not a valid limit: {name}={value}. Limits are {known}; values are numbers or unlimited")
PAM_AT_LOGIN = Sentence("PAM sets limits at login: this process keeps its own.")
VISIBLE_AT_LOGIN = Sentence("limits change only at the next login through PAM")

# system.shm

NOT_A_SIZE = Sentence("not a size: {size!r}. Write for example 16g")
SIZE_OF_CONTAINER = Sentence("the size is set when the container starts")
NOT_MOUNTED = Sentence("{path} is not mounted")
KEEP_IN_FSTAB = Sentence("To keep it after a reboot add to /etc/fstab: tmpfs {path} tmpfs defaults,size={size} 0 0")

# system.clean-logs

AT_LEAST_A_DAY = Sentence("days must be at least 1")
LOGS_UNKNOWN = Sentence("the folder of the logs is not known")
OTHER_FOLDER = Sentence("{path} is not the log folder of this job; that is {logs}")
ON_NETWORK = Sentence("{path} is on a network file system ({kind})")
