# The start command of a pod: an SSH server with the pool's keys, whatever the image
# has, and the deadlines that need no client. RunPod runs it again when the container
# restarts; it never ends by itself, since that would begin the deadlines anew.
set -u
umask 077
PATH=${PATH:-/bin}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH

destruct() {
	sh /run/gputrain/destruct
}

install_ssh() {
	command -v sshd >/dev/null && command -v curl >/dev/null && return
	if command -v apt-get; then
		apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -qy --no-install-recommends install openssh-server curl ca-certificates
	elif command -v apk; then
		apk add --no-cache openssh-server curl
	elif command -v microdnf; then
		microdnf -y install openssh-server curl
	else
		dnf -qy install openssh-server curl
	fi </dev/null
	command -v sshd >/dev/null
}

home=~root # which is not HOME where the image says otherwise
[ -d "$home" ] || home=/root
mkdir -p /run/gputrain /run/sshd /etc/ssh "$home/.ssh"
chmod 755 /run/sshd
echo "$GPUTRAIN_DESTRUCT" | base64 -d >/run/gputrain/destruct

# If nobody has taken the node over by then, its client has died before it could.
unless_taken() {
	sleep "$1"
	for taken in "$home/.gputrain" /tmp/gputrain-0*; do
		[ ! -e "$taken" ] || return
	done
	destruct
}
unless_taken "$GPUTRAIN_FIRST_DEADLINE" &
# The pool's TTL is over, and the node has not ended itself.
if [ -n "${GPUTRAIN_LAST_DEADLINE-}" ]; then
	(
		sleep "$GPUTRAIN_LAST_DEADLINE"
		destruct
	) &
fi

until install_ssh; do
	echo "gputrain: cannot install an SSH server; trying again" >&2
	sleep 10
done
printf '%s\n' "$PUBLIC_KEY" >/etc/ssh/gputrain_authorized_keys
# On a cluster all members have the same environment but for their rank.
echo "$GPUTRAIN_HOST_KEY" | cut -d, -f"$((${NODE_RANK:-0} + 1))" | base64 -d >/etc/ssh/gputrain_host_key
# The image's environment, and what RunPod tells a cluster, are the tasks' too.
env | grep -E '^[A-Za-z_][A-Za-z0-9_]*=' |
	grep -vE '^(GPUTRAIN_[A-Z_]*|PUBLIC_KEY|RUNPOD_API_KEY|JUPYTER_PASSWORD|HOME|USER|LOGNAME|SHELL|PWD|OLDPWD|SHLVL|TERM|_)=' >"$home/.ssh/environment"
cat >/etc/ssh/gputrain_sshd_config <<'EOF'
Port 22
HostKey /etc/ssh/gputrain_host_key
AuthorizedKeysFile /etc/ssh/gputrain_authorized_keys
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitUserEnvironment yes
MaxSessions 100
MaxStartups 100
UseDNS no
PidFile none
PrintMotd no
Subsystem sftp internal-sftp
EOF
unless_taken "$GPUTRAIN_READY_DEADLINE" &
while :; do
	"$(command -v sshd)" -D -e -f /etc/ssh/gputrain_sshd_config
	sleep 5
done
