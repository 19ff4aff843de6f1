"""What the checks of HCCL and of the environment say of processes that hold ports."""

from npudoctor.sdk import Sentence

UNSEEN = Sentence("a process not visible to this user")
PROCESS_WITH_PID = Sentence("process {pid}")
PROCESS = Sentence("{name} (pid {pid})")
PROCESS_OF_USER = Sentence("{name} (pid {pid}, {user})")
NAMELESS = Sentence("process")
HELD_BY = Sentence("by {owner}")
HELD_BY_CONNECTION = Sentence("by an outgoing connection of {owner}")
NOT_WITH_ONE_CHIP = Sentence("HCCL host ports are not required with one chip")
NO_NPU = Sentence("no NPU found")
PERHAPS_A_JOB = Sentence("port {ports} is held by {owner}; whether it is a running job is unknown: {reason}")
