#!/bin/sh
# Sets the node's condition NPUUnhealthy and its label npudoctor/fit from npudoctor's daemon: a sidecar of the
# DaemonSet for clusters without node-problem-detector. Needs curl, the pod's service account (rbac.yaml), NODE_NAME.
set -u
api=${KUBERNETES_API:-https://kubernetes.default.svc}
account=${ACCOUNT:-/var/run/secrets/kubernetes.io/serviceaccount}
before=
if [ "${READY:-}" ]; then # an address instead of the daemon's socket
    set -- "$READY"
else
    set -- --unix-socket /run/npudoctor/npudoctor.sock http://npudoctor/readyz
fi

patch() { # path, kind of patch, body
    curl -sS -o /dev/null --fail --max-time 10 --cacert "$account/ca.crt" -X PATCH \
        -H "Authorization: Bearer $(cat "$account/token")" -H "Content-Type: application/$2+json" \
        --data "$3" "$api$1"
}

# Whether root holds the node (/etc/npudoctor/hold: who, why, until): then its label is left as it is.
held() {
    for file in ${NPUDOCTOR_HOLD:-/etc/npudoctor/hold /run/npudoctor/hold}; do
        [ -f "$file" ] || continue
        if [ -z "$(find "$file" -prune \( -user 0 -o -user "$(id -u)" \) ! -perm -020 ! -perm -002)" ]; then
            echo "npudoctor: $file does not count as a hold: another user than root could have written it" >&2
            continue
        fi
        until=$(head -n 1 "$file" | sed -nE 's/.*until ([0-9]{4})-([0-9]{2})-([0-9]{2}) *$/\1\2\3/p')
        if [ -z "$until" ] || [ "$(date +%Y%m%d)" -le "$until" ]; then return 0; fi
    done
    return 1
}

while :; do
    answer=$(curl -s --max-time 10 -w '%{http_code}' "$@")
    now=$(date -u +%Y-%m-%dT%H:%M:%SZ)
    # The reason is copied as a JSON string.
    message=$(printf '%s' "$answer" | sed -nE 's/.*"reason":"(([^"\\]|\\.)*)".*/\1/p')
    case $answer in
        *'"ready":true'*200) status=False reason=NPUsAreFit fit=true message='all NPUs healthy' ;;
        *'"ready":false'*'"looked_at":"'*503) status=True reason=NPUIsUnfit fit=false ;;
        *) status=Unknown reason=NobodyCouldLook fit=unknown message=${message:-no answer of the daemon} ;;
    esac
    [ "$status" = "$before" ] || changed=$now
    condition='{"type":"NPUUnhealthy","status":"'$status'","reason":"'$reason'","message":"'$message'",'
    condition=$condition'"lastHeartbeatTime":"'$now'","lastTransitionTime":"'$changed'"}'
    if patch "/api/v1/nodes/$NODE_NAME/status" strategic-merge-patch '{"status":{"conditions":['"$condition"']}}' &&
        { held || patch "/api/v1/nodes/$NODE_NAME" merge-patch '{"metadata":{"labels":{"npudoctor/fit":"'$fit'"}}}'; }; then
        before=$status
    fi
    [ "${ONCE:-}" ] && exit 0
    sleep 60
done
