#!/bin/bash
# Slurm's HealthCheckProgram: drains a node whose cards are unfit, and resumes what it has drained when they are fit.
#   HealthCheckProgram=/etc/slurm/npudoctor-healthcheck.sh
#   HealthCheckInterval=300
#   HealthCheckNodeState=ANY,CYCLE
# It runs beside jobs and judges the health of the cards alone. Slurm kills it after 60 seconds; it needs 55 at most.
# A node that is drained here still registers (exit 0), so that the reason is seen. Where it could not look, it neither
# drains nor resumes.
set -u
PATH=${PATH:-}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
node=${SLURMD_NODENAME:-$(hostname -s)}

line=$(${NPUDOCTOR:-npudoctor} check health driver.npu-smi --profile quick --format npd --timeout 50)
code=$?
shown=$(timeout 2 scontrol -o show node "$node") || { echo "scontrol does not answer: $line" >&2; exit 1; }
state=$(sed -n 's/.* State=\([^ ]*\).*/\1/p' <<<" $shown")
reason=$(sed -n 's/.* Reason=\(.*\)/\1/p' <<<" $shown")

case $code in
    0) # Resume what was drained here, and nothing that a person has drained.
        if [[ $state == *DRAIN* && $reason == npudoctor:* ]]; then
            timeout 2 scontrol update NodeName="$node" State=RESUME
        fi
        ;;
    1)
        if [[ $state != *DRAIN* ]]; then
            timeout 2 scontrol update NodeName="$node" State=DRAIN Reason="npudoctor: $line"
        fi
        ;;
    *)
        echo "npudoctor could not look: $line" >&2
        ;;
esac
