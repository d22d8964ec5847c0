# Otherwise logins would start tmux, which breaks commands; on some hosts the files in .ssh have
# the wrong owner, so that sshd refuses keys; and logins lack the image's variables.
touch ~/.no_auto_tmux
mkdir -p ~/.ssh
touch ~/.ssh/authorized_keys
chown -R "$(id -u):$(id -g)" ~/.ssh
chmod 700 ~/.ssh
chmod 600 ~/.ssh/authorized_keys
env | grep '^[A-Za-z_][A-Za-z0-9_]*=' | grep -v '^CONTAINER_API_KEY=' >>/etc/environment
# vast_keys prints the host keys for the log, which the pool reads before it connects.
vast_keys() {
	for vast_f in /etc/ssh/ssh_host_*_key.pub; do
		{ read -r vast_kind vast_key vast_rest || [ "$vast_key" ]; } <"$vast_f" && echo "gputrain-host-key $vast_node $vast_kind $vast_key"
	done
}
(
	vast_n=0
	until cat /etc/ssh/ssh_host_*_key.pub >/dev/null || [ "$vast_n" -gt 60 ]; do
		sleep 1
		vast_n=$((vast_n + 1))
	done
	vast_keys >/proc/1/fd/1 || vast_keys
) 2>/dev/null </dev/null &
(
	command -v curl || command -v wget || command -v python3 || { apt-get update && apt-get install -y curl ca-certificates; }
	# A program that takes the node over marks its processes there, and renews a lease from then on.
	vast_n=0
	until grep -qsF "GPUTRAIN_NODE=$vast_node" /proc/[0-9]*/environ; do
		[ "$vast_n" -lt "$vast_wait" ] || vast_end
		sleep 1
		vast_n=$((vast_n + 1))
	done
	[ "$vast_ttl" -gt 0 ] || exit 0
	sleep $((vast_ttl - vast_n))
	vast_end
) >/dev/null 2>&1 </dev/null &
