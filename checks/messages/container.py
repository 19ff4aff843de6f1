"""What the checks of containers say."""

from npudoctor.sdk import Message, Sentence, Severity

# container.devices

NO_DEVICE = Message(
    "container.devices/missing",
    summary="no NPU device is mapped into this container",
    hint="Recreate the container on the host with its device nodes, or with the ascend runtime. Where there are no "
    "NPUs, `npudoctor demo` shows what a diagnosis looks like.",
    pitfall="P009",
)
REQUEST_NPUS = Sentence(
    "Request NPUs for the pod (resources.limits: {resource}: {count}); the device plugin maps them into it."
)
MAPPED_AT_CREATION = Sentence("Device nodes are mapped when a container is created, and cannot be added later.")
NODE_IS_A_DIRECTORY = Sentence(
    "{path} is a directory: it was mapped with -v instead of --device, and the host does not have it."
)
VARIABLE_WITHOUT_RUNTIME = Sentence(
    "{variable} is set, but only the ascend runtime reads it, and this container was not created with that runtime."
)
NPUS_OF_HOST = Sentence("{count} {count:NPU|NPUs}")
DEVICE_NODE = Sentence("a device node")
DIRECTORY = Sentence("a directory")
MANAGER_MISSING = Message(
    "container.devices/manager-missing",
    summary="NPU manager {count:device|devices} missing in this container: {paths}",
    detail="Without the manager devices no NPU can be opened: npu-smi fails with -8005, and torch finds no NPU.",
    hint="Recreate the container with all of them.",
    pitfall="P009",
)
DENIED = Message(
    "container.devices/denied",
    summary="device rules of this container deny access to {paths}",
    detail="The device nodes exist, but the control group denies access: they were created by hand, or moved.",
    hint="Map them with --device, which adds the rule. --privileged would only hide the mistake.",
    pitfall="P009",
)
RULE_EXPECTED = Sentence("a rule with rw for each")
NO_RULE = Sentence("no rule for {path}")

# container.driver-files

NOT_MOUNTED = Message(
    "container.driver-files/missing",
    summary="driver files not mounted into this container: {paths}",
    detail="Without the libraries of the host's driver no program in this container can use an NPU.",
    hint="Recreate the container on the host with all driver files mounted from their original paths.",
    pitfall="P009",
)
WRONG_MOUNT = Message(
    "container.driver-files/wrong",
    summary="wrong driver {count:file|files} in this container: {files}",
    detail="Without the libraries of the host's driver no program in this container can use an NPU.",
    hint="Recreate the container on the host with all driver files mounted from their original paths.",
    pitfall="P009",
)
FIND_ON_HOST = Sentence(
    "The host has no {paths}, so that a directory was made in {count:its|their} place. Find the {count:file|files} on "
    "the host first, and mount from there."
)
LOOK_ON_HOST = Sentence("ls -ld {paths}  # on the host")
ONLY_DCMI = Sentence("npu-smi works without {count:it|them}. Programs that read the NPUs through DCMI do not.")
DIRECTORY_FOR_FILE = Sentence("a directory: the host has nothing at the mounted path")
FILE_FOR_DIRECTORY = Sentence("a file")
CONTENT_MISSING = Sentence("without {files}")
MOUNTED_FROM = Sentence("mounted from {path}")
FROM_THE_HOST = Sentence("{what}, from {path}")
NETWORK_FILES = Message(
    "container.driver-files/network",
    summary="NPU network files not mounted into this container: {paths}",
    detail="A job on several nodes reads the addresses of the NPUs from them, and so does a job on one node that moves "
    "data over the ports of the NPUs.",
    hint="Recreate the container with {count:it|them} mounted from the host.",
    pitfall="P027",
)
OPTIONAL_FILES = Message(
    "container.driver-files/optional",
    summary="optional driver files not mounted into this container: {paths}",
    detail="Jobs on one node run without {count:it|them}. The checks that read {count:it|them} are skipped.",
    hint="Mount {count:it|them} from the host when the container is recreated.",
    severity=Severity.INFO,
    pitfall="P009",
)
OTHER_DRIVER = Message(
    "container.driver-files/version-mismatch",
    summary="driver files {container} in this container do not match driver {host} of the host",
    detail="They are part of the image or mounted from a copy, or the driver of the host was upgraded without a "
    "reboot. Libraries and modules of two drivers fail in ways that look like a broken NPU.",
    hint="Mount the driver files from the host. Run npudoctor on the host to see whether it requires a reboot.",
    pitfall="P009",
)

# container.runtime

DEVICES_MISMATCH = Message(
    "container.runtime/mismatch",
    summary="{variable}={value} does not match the {count} NPU {count:device|devices} in this container",
    detail="The variable has no effect: this container was not created with the ascend runtime, and its NPUs were "
    "mapped in another way (--privileged, --device).",
    hint="Create the container with the ascend runtime, or map the NPUs that it should use and remove the variable.",
    severity=Severity.WARNING,
    pitfall="P061",
)
DIVIDED_OTHERWISE = Message(
    "container.runtime/template",
    summary="{variable}={value}, but this container has {found}",
    detail="Only the ascend runtime reads this variable, when it creates the container. A job has the AI Cores and the "
    "memory of what is in the container.",
    hint="Create the container with the ascend runtime and a template of this product, or remove the variable.",
    severity=Severity.WARNING,
    pitfall="P061",
)
WHOLE_NPUS = Sentence("whole NPUs")
OF_TEMPLATES = Sentence("vNPUs of {templates}")
CHANGED_LATER = Sentence(
    "The variable was changed after the container was created, or further devices were mapped into the container."
)

# containers.complete

NO_NPU_IN = Message(
    "containers.complete/no-device",
    summary="driver files but no NPU device in {count} running {count:container|containers}: {names}",
    detail="Device nodes are mapped when a container is created. Programs in {count:this container|these containers} "
    "find no NPU.",
    hint="Recreate {count:it|them} with device nodes, if {count:it is|they are} meant to use NPUs.",
    severity=Severity.INFO,
    pitfall="P009",
)
NO_MANAGER_IN = Message(
    "containers.complete/no-manager",
    summary="NPU manager devices missing in {count} running {count:container|containers}: {names}",
    detail="Without the manager devices no NPU can be opened in {count:this container|these containers}.",
    hint="Recreate {count:it|them} with all device nodes.",
    severity=Severity.WARNING,
    pitfall="P009",
)
NO_DRIVER_FILES_IN = Message(
    "containers.complete/no-driver-files",
    summary="driver files not mounted into {count} running {count:container|containers} with NPUs: {names}",
    detail="Without the libraries of the host's driver no program in {count:this container|these containers} can use "
    "an NPU. A copy in the image fails after the next driver upgrade.",
    hint="Recreate {count:it|them} with the driver files mounted from their original paths.",
    severity=Severity.WARNING,
    pitfall="P009",
)
NO_NETWORK_FILES_IN = Message(
    "containers.complete/no-network-files",
    summary="{paths} not mounted into {count} running {count:container|containers} with NPUs: {names}",
    detail="A job on several nodes, and an inference stack that moves data between NPUs, reads the addresses of the "
    "NPUs there. Jobs on one node run without.",
    hint="Recreate {count:it|them} with these files mounted, if {count:its|their} jobs span nodes.",
    severity=Severity.INFO,
    pitfall="P027",
)
MORE_CONTAINERS = Sentence("{count} more")
PROCESS_OF = Sentence("{container} ({runtime}, pid {pid})")
NOT_FOUND = Sentence("not in the container")
NONE_RUNS = Sentence("no running container uses an NPU")

# containers.runtime

NOT_REGISTERED = Message(
    "containers.runtime/not-registered",
    summary="{engine} does not know the Ascend Docker runtime that is installed",
    detail="Containers started with {engine} get no NPU by ASCEND_VISIBLE_DEVICES.",
    hint="Register it, unless NPUs are mapped by another way, such as --device or a device plugin.",
    severity=Severity.INFO,
    pitfall="P009",
)
