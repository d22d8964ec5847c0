# Process 1 of a node's pod: it copies the node's keys out of the Secret, and runs an SSH server.
# Before it stand user, the user that logs in; grace, the seconds that a pod has to end in; node, the
# node's name; and lease, the seconds in which a program must take the node over.
#
# A pod that the cluster ends gets SIGTERM. It then notes until when it may go on, goes on for that
# long, and fails: sshd alone would end with code 0, and the loss would look like a success. On
# SIGUSR1, by which a node ends itself, it succeeds at once.
umask 077
given=$PATH
PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
from=${GPUTRAIN_POD_SECRET:-/etc/gputrain}
run=${GPUTRAIN_POD_RUN:-/run/gputrain}
server=
sleeper=
claims=

say() { echo "gputrain: $*" >&2; }
die() { say "$*"; stop; exit 70; }
has() { command -v "$1" >/dev/null 2>&1; }

# stop ends the SSH server and what else was started; sessions end with the pod. A child that has just been forked may still have
# this shell's trap of TERM, and lose that signal, and may have no name yet: $! is the last.
stop() {
	for child in $server $sleeper $claims $!; do kill -KILL "$child" 2>/dev/null; done
}

told() {
	trap '' TERM
	say "told to end: $((grace - 3)) seconds are left"
	echo $(($(date +%s) + grace - 3)) >"$run/preempted.new" && mv "$run/preempted.new" "$run/preempted"
	sleep $((grace - 5)) &
	sleeper=$!
	wait "$sleeper"
	stop
	exit 143
}

finished() {
	trap '' TERM USR1
	say "ends itself"
	stop
	exit 0
}

trap told TERM
trap finished USR1

install_sshd() {
	[ "$user" = root ] || die "image: it has no SSH server, and only root could install one"
	say "image: installing an SSH server"
	if has apt-get; then
		DEBIAN_FRONTEND=noninteractive
		export DEBIAN_FRONTEND
		apt-get -qq update && apt-get -qq install -y --no-install-recommends openssh-server
	elif has apk; then
		apk add --no-cache openssh-server
	elif has microdnf; then
		microdnf -y install --setopt=install_weak_deps=0 openssh-server
	elif has dnf; then
		dnf -y install --setopt=install_weak_deps=False openssh-server
	elif has yum; then
		yum -y install openssh-server
	else
		die "image: it has no SSH server, and no package manager that could install one"
	fi </dev/null >&2
	has sshd || die "image: an SSH server could not be installed: does the pod reach the package mirror?"
}

# options prints the image's environment as options of a key, as sshd would hide it from sessions.
# Values with a line break, or with a backslash at their end, have no such form.
options() {
	for name in $(env | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p'); do
		case $name in HOME | USER | LOGNAME | SHELL | PWD | OLDPWD | SHLVL | _ | GPUTRAIN_* | KUBERNETES_*) continue ;; esac
		eval "value=\${$name-}"
		[ "$name" != PATH ] || value=$given
		case $value in *'
'* | *\\) continue ;; esac
		printf 'environment="%s=%s",' "$name" "$(printf '%s' "$value" | sed 's/"/\\"/g')"
	done
}

# unclaimed ends a node that no program takes over. A program that does marks its processes there,
# and renews a lease from then on.
unclaimed() {
	n=0
	until grep -qsF "GPUTRAIN_NODE=$node" /proc/[0-9]*/environ; do
		[ "$n" -lt "$lease" ] || {
			say "no program has come within $lease seconds"
			kill -USR1 $$
			return
		}
		sleep 1
		n=$((n + 1))
	done
}

has sshd || install_sshd
mkdir -p "$run" || die "$run cannot be made"
if [ "$user" = root ]; then
	mkdir -p /run/sshd && chmod 755 /run/sshd || die "/run/sshd cannot be made"
	# sshd refuses a locked account, as root's is in some images, even with a key.
	if grep -q "^root:!" /etc/shadow 2>/dev/null; then
		sed 's/^root:![^:]*:/root:*:/' /etc/shadow >"$run/shadow" && cat "$run/shadow" >/etc/shadow
		rm -f "$run/shadow"
	fi
fi
cp "$from/host_key" "$run/host_key" || die "the Secret has no host key"
chmod 600 "$run/host_key"
set_options=$(options)
while IFS= read -r key; do
	[ -z "$key" ] || printf '%s %s\n' "${set_options%,}" "$key"
done <"$from/authorized_keys" | sed 's/^ //' >"$run/authorized_keys"
sed "s#/run/gputrain/#$run/#" "$from/sshd_config" >"$run/sshd_config"
# sshd must be run by its full path, and not with the libraries of an image.
printf 'unset LD_LIBRARY_PATH LD_PRELOAD\nexec %s -e -f %s "$@"\n' "$(command -v sshd)" "$run/sshd_config" >"$run/sshd"

# What a node runs to end itself. It is here, so that nothing happens where there is no pod.
echo 'kill -USR1 1; sleep 5; kill -KILL -1' >"$run/end"

sh "$run/sshd" -D </dev/null &
server=$!
unclaimed </dev/null &
claims=$!
wait "$server"
code=$?
die "the SSH server has ended with code $code"
