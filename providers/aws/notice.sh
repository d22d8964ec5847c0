# Prints the seconds until a spot instance is taken back, or nothing.
imds=${imds:-http://169.254.169.254}
ask() { curl -sf -m 2 "$@"; }
token=$(ask -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' "$imds/latest/api/token") || exit 0
action=$(printf 'header = "X-aws-ec2-metadata-token: %s"\n' "$token" | ask -K - "$imds/latest/meta-data/spot/instance-action") || exit 0
at=$(printf '%s' "$action" | sed -n 's/.*"time" *: *"\([^"]*\)".*/\1/p')
[ -n "$at" ] || exit 0
at=$(date -u -d "$at" +%s) || exit 0
left=$((at - $(date -u +%s)))
[ "$left" -gt 0 ] || left=0
echo "$left"
