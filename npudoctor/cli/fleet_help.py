"""What the help of each action of `npudoctor fleet` says."""

ABOUT = {
    "check": """Ask nodes, merge their answers, and say what is wrong across them. Nothing on a node changes.

Each node runs `npudoctor node --line`. A node that is in service is asked with profile quick. The run folder keeps the
answers, and is read by merge, lists, fix and `npudoctor tui --fleet`.

examples:
  npudoctor fleet check -w 'n[0001-0128]'        over your own ssh and ssh_config
  npudoctor fleet check --slurm -p train         by srun
  npudoctor fleet check --drop /shared/answers   answers that something else gathered
  npudoctor fleet check --run RUN                only nodes without an answer are asked
  npudoctor fleet check -w 'n[1-3]' --simulate new-node    try it without a cluster

exit codes: 0 nothing at or above --fail-on, 1 findings, 2 usage, 3 a node did not answer (see --allow-missing) or a
check crashed, 130 interrupted.""",
    "merge": """Merge a run again, or files with answers, and print the verdict. No node is asked.

examples:
  npudoctor fleet merge RUN                      the page of that run
  npudoctor fleet merge RUN --format html >fleet.html
  npudoctor fleet merge RUN --redact DIR         with pseudonyms, to send
  npudoctor fleet merge n1.line n2.line          lines that `npudoctor fleet script` has printed on nodes

exit codes: 0 nothing at or above --fail-on, 1 findings, 2 usage, 3 a node did not answer (see --allow-missing) or a
check crashed.""",
    "lists": """Print a list of nodes for another program, from a run. Nothing is changed; the nodes that are not to be
used are named on standard error.

examples:
  npudoctor fleet lists RUN hostfile             nodes without an error, for mpirun
  npudoctor fleet lists RUN slurm-drain          the commands that drain the others
  npudoctor fleet lists RUN rank-table           a rank table of the nodes without an error

exit codes: 0 printed, 2 usage.""",
    "fix": """List which fixes the findings of a run offer, and on which nodes. Nothing is changed: a fix is confirmed
on its node.

examples:
  npudoctor fleet fix RUN                        fixes and nodes
  npudoctor fleet fix RUN hccl.reserve-ports --as shell      commands that preview this fix on its nodes

exit codes: 0 printed, 2 usage.""",
    "script": """Print one command to run on a node by hand, where neither ssh nor Slurm is allowed.

Carry the line that it prints on each node here, in a file, and merge the files.

examples:
  npudoctor fleet script
  npudoctor fleet merge FILE...

exit codes: 0 printed, 2 usage.""",
    "manifest": """Print a Kubernetes Job that runs one pod on each named node and writes the answers to a volume.

examples:
  npudoctor fleet manifest k8s -w 'n[1-8]' --image REGISTRY/npudoctor --claim shared | kubectl apply -f -
  npudoctor fleet check -w 'n[1-8]' --drop /shared

exit codes: 0 printed, 2 usage.""",
    "install": """Install an archive of npudoctor on the nodes: show the plan of every node, ask, install.

The SHA-256 of the archive must be in ARCHIVE.sha256 or SHA256SUMS of its folder. Earlier releases stay.

examples:
  npudoctor fleet install npudoctor-VERSION-linux-aarch64.tar.gz -w 'n[1-8]' --dry-run    only the plan
  npudoctor fleet install npudoctor-VERSION-linux-aarch64.tar.gz -w 'n[1-8]' --sudo
  npudoctor fleet check -w 'n[1-8]' --remote-command /opt/npudoctor-fleet/current/bin/npudoctor

exit codes: 0 on all nodes, 1 refused by a node, 2 usage, 3 a node did not answer, 7 not confirmed.""",
    "sim": """Write the answers of a simulated cluster into a folder, to try the other actions.

examples:
  npudoctor fleet sim 64 DIR --faults drift=3,dead=1
  npudoctor fleet merge DIR
  npudoctor tui --fleet DIR
  npudoctor fleet sim 64 DIR --faults help       an unknown fault lists all

exit codes: 0 written, 2 usage.""",
}
"""The text by the name of the action."""
