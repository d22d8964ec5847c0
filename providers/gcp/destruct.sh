# gcp_end ends the machine. If the machine has an identity, it deletes itself with its disk.
# The token is in no argument, where other users would see it. Without an identity, or without
# the permission, the machine shuts down, which ends all billing except the disk's.
gcp_meta() {
	curl -fsS -m 10 -H 'Metadata-Flavor: Google' "http://${GCE_METADATA_HOST:-metadata.google.internal}/computeMetadata/v1/instance/$1"
}
gcp_delete() {
	gcp_token=$(gcp_meta service-accounts/default/token | sed -n 's/.*"access_token" *: *"\([^"]*\)".*/\1/p')
	[ -n "$gcp_token" ] &&
		printf 'header = "Authorization: Bearer %s"\n' "$gcp_token" | curl -fsS -m 30 -o /dev/null -K - -X DELETE "$gcp_self"
}
gcp_end() {
	for gcp_try in 1 2 3; do
		gcp_delete && sleep 60
		[ "$gcp_try" = 3 ] || sleep "$gcp_pause"
	done
	while :; do
		if [ "$(id -u)" = 0 ]; then shutdown -h now; else sudo -n shutdown -h now; fi
		sleep 30
	done
} >/dev/null 2>&1
