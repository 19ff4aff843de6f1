#!/bin/bash
# Slurm's Prolog: a job starts only on healthy, idle NPUs.
#   Prolog=/etc/slurm/npudoctor-prolog.sh
#   PrologFlags=Alloc
# It checks the NPUs of this job, regardless of the others. Exit 1 makes Slurm requeue the job and drain the node; an
# undetermined result stops no job, unless NPUDOCTOR_STRICT=1.
set -u
PATH=${PATH:-}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
node=${SLURMD_NODENAME:-$(hostname -s)}

# Whether root holds the node (/etc/npudoctor/hold: who, why, until): then its state is left as it is.
held() {
    local file until
    for file in ${NPUDOCTOR_HOLD:-/etc/npudoctor/hold /run/npudoctor/hold}; do
        [[ -f $file ]] || continue
        if [[ ! -O $file || $(find "$file" -maxdepth 0 -perm /022) ]]; then
            echo "npudoctor: $file does not count as a hold: another user than root could have written it" >&2
            continue
        fi
        until=$(head -n 1 "$file" | sed -nE 's/.*\buntil ([0-9]{4}-[0-9]{2}-[0-9]{2}) *$/\1/p')
        if [[ -z $until || ! $(date +%F) > $until ]]; then return 0; fi
    done
    return 1
}

# The job's devices, N of /dev/davinciN: Slurm passes those of the GRES gpu; those of another GRES are in the job.
devices_of_job() {
    local line nodes
    while read -r line; do
        nodes=$(sed -n 's/^ *Nodes=\([^ ]*\) .*/\1/p' <<<"$line")
        if [[ -n $nodes ]] && timeout 2 scontrol show hostnames "$nodes" | grep -qxF "$node"; then
            sed -n 's/.*GRES=[^ ]*(IDX:\([0-9,-]*\)).*/\1/p' <<<"$line"
        fi
    done < <(timeout 5 scontrol -d show job "$SLURM_JOB_ID")
}
devices=${SLURM_JOB_GPUS:-$(devices_of_job)}
if [[ -z $devices ]]; then
    # If NPUs are allocated as GRES, this job has none; otherwise a job has the whole node.
    if timeout 2 scontrol -o show node "$node" | grep -qE ' Gres=[^ ]*(gpu|npu)'; then exit 0; fi
fi

line=$(${NPUDOCTOR:-npudoctor} check health driver.npu-smi npu.processes npu.memory-free \
    --expect-idle ${devices:+--cards="$devices"} --format npd --timeout 50)
case $? in
    0) exit 0 ;;
    1)
        # Slurm itself reports only that the prolog failed.
        held || timeout 2 scontrol update NodeName="$node" State=DRAIN Reason="npudoctor-health: $line"
        echo "npudoctor: $line" >&2
        exit 1
        ;;
    *)
        echo "npudoctor: $line" >&2
        exit "${NPUDOCTOR_STRICT:-0}"
        ;;
esac
