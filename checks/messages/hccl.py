"""What the checks of HCCL say."""

from npudoctor.sdk import Message, Sentence

PORT_TAKEN = Message(
    "hccl.ports-free/taken",
    summary="HCCL {count:port|ports} {ports} in use {how}",
    detail="A job that starts now and needs {count:this port|these ports} fails with EJ0003 or EI0019.",
    hint="End the process if it is left over from a job, or give this job its own base port.",
    pitfall="P003",
)
TAKEN_BY_LIVE_JOB = Sentence("A running job explains this. A second job on this node requires its own ports.")
TAKEN_BY_CONNECTION = Sentence(
    "A job that starts now and needs {count:this port|these ports} fails with EJ0003 or EI0019. The kernel hands out "
    "such ports to outgoing connections unless they are reserved: see hccl.ports-reserved."
)
FREE_PORTS = Sentence("{ports} free")
HELD_PORTS = Sentence("{ports} held by {owner}")
