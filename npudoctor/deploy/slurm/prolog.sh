#!/bin/bash
# Slurm's Prolog: a job starts only on cards that are fit and free.
#   Prolog=/etc/slurm/npudoctor-prolog.sh
#   PrologFlags=Alloc
# It judges the cards of this job, whatever runs on the others. Exit 1 makes Slurm requeue the job and drain the node;
# what could not be judged stops no job, but with NPUDOCTOR_STRICT=1.
set -u
PATH=${PATH:-}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
node=${SLURMD_NODENAME:-$(hostname -s)}

# The job's cards, as the N of /dev/davinciN: Slurm tells them of the GRES gpu; those of another GRES stand in the job.
cards_of_job() {
    local line nodes
    while read -r line; do
        nodes=$(sed -n 's/^ *Nodes=\([^ ]*\) .*/\1/p' <<<"$line")
        if [[ -n $nodes ]] && timeout 2 scontrol show hostnames "$nodes" | grep -qxF "$node"; then
            sed -n 's/.*GRES=[^ ]*(IDX:\([0-9,-]*\)).*/\1/p' <<<"$line"
        fi
    done < <(timeout 5 scontrol -d show job "$SLURM_JOB_ID")
}
cards=${SLURM_JOB_GPUS:-$(cards_of_job)}
if [[ -z $cards ]]; then
    # Where cards are handed out as GRES, this job has none; elsewhere a job has the whole node.
    if timeout 2 scontrol -o show node "$node" | grep -qE ' Gres=[^ ]*(gpu|npu)'; then exit 0; fi
fi

line=$(${NPUDOCTOR:-npudoctor} check health driver.npu-smi npu.processes npu.memory-free \
    --expect-idle ${cards:+--cards="$cards"} --format npd --timeout 50)
case $? in
    0) exit 0 ;;
    1)
        # Slurm would say no more than that the prolog failed.
        timeout 2 scontrol update NodeName="$node" State=DRAIN Reason="npudoctor: $line"
        echo "npudoctor: $line" >&2
        exit 1
        ;;
    *)
        echo "npudoctor could not look: $line" >&2
        exit "${NPUDOCTOR_STRICT:-0}"
        ;;
esac
