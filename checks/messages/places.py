"""What has to be done where a finding is made: on the host, by a container engine, in a pod, by an operator."""

from npudoctor.sdk import Sentence

WITH_OTHER_OPTIONS = Sentence("{command} IMAGE  # IMAGE and all other options as before")
WITH_OPTIONS_OF_DOCKER = Sentence(
    "{command} IMAGE  # as for docker; IMAGE as before, and the options as what starts this container writes them"
)
WITH_ASCEND_RUNTIME = Sentence("{command} IMAGE  # or so, with the ascend runtime; IMAGE as before")
ASK_THE_OPERATOR = Sentence(
    "Only the operator of this platform can change how this notebook is started. Text to send: “{request}”"
)

# of a pod

POD_FILES = Sentence(
    "Give the pod the runtime class of the ascend runtime (runtimeClassName), or mount from its node with hostPath: "
    "{paths}."
)
POD_GROUP = Sentence("Set securityContext.supplementalGroups: [{gid}] in the pod: the number counts, not the name.")
POD_SHM = Sentence("Give the pod an emptyDir with medium: Memory on /dev/shm.")
POD_LIMIT = Sentence(
    "A pod gets its limits from the container runtime of its node: raise {setting} in containerd.service (systemctl "
    "edit containerd), restart it, and recreate the pod."
)
POD_PIDS = Sentence("Raise podPidsLimit in the configuration of the kubelet on the node, and recreate the pod.")
POD_PORTS = Sentence(
    "Set {key} to {value} in securityContext.sysctls of the pod; the kubelet must allow it (allowedUnsafeSysctls)."
)
POD_HOSTS = Sentence("Map the name {name} to {address} with hostAliases in the pod.")

# to send to the operator of a platform

SEND_DEVICES = Sentence("Please pass the NPU devices into this container: {paths}.")
SEND_FILES = Sentence("Please mount these files of the host's NPU driver into this container, read only: {paths}.")
SEND_GROUP = Sentence("Please add the supplementary group {gid}, which owns the NPU device nodes, to this container.")
SEND_SHM = Sentence("Please give this container 16 GiB of /dev/shm; it has {size}.")
SEND_LIMIT = Sentence("Please raise the limit {name} of this container to {value}; it is {limit}.")
SEND_PORTS = Sentence("Please set {key} to {value} in this container.")
SEND_HOSTS = Sentence("Please map the name {name} of this container to {address}.")
SEND_CHECK = Sentence("npu-smi fails in this container ({reason}). Please check whether it works on the host.")
