#!/bin/bash
# Slurm's HealthCheckProgram: drains a node with unhealthy NPUs, and resumes it when they are healthy again.
#   HealthCheckProgram=/etc/slurm/npudoctor-healthcheck.sh
#   HealthCheckInterval=300
#   HealthCheckNodeState=ANY,CYCLE
# It runs beside jobs and checks NPU health only. Slurm kills it after 60 seconds; it takes 55 at most.
# A node drained here still registers (exit 0), so that the reason is shown. An undetermined result neither drains nor
# resumes.
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

if held; then exit 0; fi
line=$(${NPUDOCTOR:-npudoctor} check health driver.npu-smi --profile quick --format npd --timeout 50)
code=$?
shown=$(timeout 2 scontrol -o show node "$node") || { echo "scontrol does not answer: $line" >&2; exit 1; }
# The first of each: the text of a reason may itself contain " State=".
[[ " $shown" =~ " State="([^ ]*) ]] && state=${BASH_REMATCH[1]} || state=
[[ " $shown" =~ " Reason="(.*) ]] && reason=${BASH_REMATCH[1]} || reason=

case $code in
    0) # Resume only nodes drained by this script, not by an administrator.
        if [[ $state == *DRAIN* && $reason == npudoctor-health:* ]]; then
            timeout 2 scontrol update NodeName="$node" State=RESUME
        fi
        ;;
    1)
        if [[ $state != *DRAIN* ]]; then
            timeout 2 scontrol update NodeName="$node" State=DRAIN Reason="npudoctor-health: $line"
        fi
        ;;
    *)
        echo "npudoctor: $line" >&2
        ;;
esac
