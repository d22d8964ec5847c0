# seal.sh prepares a machine for an image of its disk. It is fed to a shell, followed by a call of keep or of clean, both
# with ROOT CACHE WORK KEY PUBLIC-KEYS SECONDS SELF-DESTRUCT.
#
# A test's machine is part of a computer: GPUTRAIN_SYSTEM_ROOT names the folder that stands for its file system.

set -e
system=${GPUTRAIN_SYSTEM_ROOT-}
have() { command -v "$1" >/dev/null 2>&1; }
fail() { echo "gputrain: $*" >&2; exit 1; }

# as_root COMMAND... runs it as root. may_root tells whether that works.
may_root=yes
if [ "$(id -u)" = 0 ]; then as_root() { "$@"; }
elif have sudo && sudo -n true 2>/dev/null; then as_root() { sudo -n "$@"; }
elif have doas && doas -n true 2>/dev/null; then as_root() { doas -n "$@"; }
else may_root=no; as_root() { fail "$1 needs root, and $(id -un) is not root and has no sudo without a password"; }
fi

keep() {
	kept=$2/baked/$4
	if [ -n "$7" ]; then
		# In memory only: this replaces the lease, whose files are removed.
		(set +e; trap '' HUP; exec >/dev/null 2>&1 </dev/null; sleep "$6"; eval "$7") &
	fi
	rm -rf "$2/baked"
	(umask 077 && mkdir -p "$kept.new")
	mv "$3" "$kept.new/work"
	[ ! -e "$3.sync" ] || mv "$3.sync" "$kept.new/work.sync"
	[ ! -d "$1/phases" ] || mv "$1/phases" "$kept.new/phases"
	printf '%s\n' "$3" >"$kept.new/was"
	mv "$kept.new" "$kept"
}

clean() {
	if [ -z "$system" ]; then
		# Nothing but a machine of its own may be cleaned: there the login has its own home.
		me=$(id -u) home=
		while IFS=: read -r name pass uid gid gecos dir shell; do
			[ "$uid" != "$me" ] || { home=$dir; break; }
		done </etc/passwd
		[ "$HOME" = "$home" ] || fail "HOME is $HOME, and the home of the login is $home: this is no machine of its own"
	else
		[ -d "$system/etc" ] || fail "there is no $system/etc"
	fi
	rm -rf "${2%/*}/pools"
	[ -z "$5" ] || unkey "$5"
	hostkeys
	identity
	logs
	histories
	sync
}

# unkey PUBLIC-KEYS takes the keys that the pool has added out of every authorized_keys: the lines with one of these texts,
# which are a line each.
unkey() {
	while IFS=: read -r name pass uid gid gecos dir shell; do
		unkey_in "$system$dir/.ssh/authorized_keys" "$1"
	done <"$system/etc/passwd"
	unkey_in "$HOME/.ssh/authorized_keys" "$1"
}

unkey_in() {
	if ! as_root_if_needed test -e "$1"; then return 0; fi
	if as_root_if_needed grep -qF "$2" "$1"; then
		as_root_if_needed sh -c 'l=$(grep -vF "$2" "$1") || :; printf "%s\n" "$l" >"$1"' sh "$1" "$2" || fail "cannot take the keys out of $1"
	fi
}

# as_root_if_needed runs a command that may concern other users' files. Without root it does what it can.
as_root_if_needed() { if [ "$may_root" = yes ]; then as_root "$@"; else "$@" 2>/dev/null; fi; }

# hostkeys removes the SSH server's keys, if the next boot makes new ones.
hostkeys() {
	set -- "$system"/etc/ssh/ssh_host_*
	[ -e "$1" ] || return 0
	have cloud-init || have google_metadata_script_runner || [ -e "$system/usr/lib/systemd/system/sshd-keygen.target" ] ||
		fail "nothing on this machine would make new SSH host keys (cloud-init, Google's guest agent, sshd-keygen), and those that it has must not be in an image"
	as_root rm -f "$@"
}

# identity makes the next boot a first boot.
identity() {
	if [ -z "$system" ] && have cloud-init; then
		as_root cloud-init clean --logs
	fi
	if [ -e "$system/var/lib/cloud" ]; then
		as_root rm -rf "$system/var/lib/cloud/instance" "$system/var/lib/cloud/instances" "$system/var/lib/cloud/sem" "$system/var/lib/cloud/data"
	fi
	if [ "$may_root" = yes ] && [ -s "$system/etc/machine-id" ]; then
		as_root sh -c ': >"$1"' sh "$system/etc/machine-id"
		[ -L "$system/var/lib/dbus/machine-id" ] || as_root rm -f "$system/var/lib/dbus/machine-id"
	fi
	if [ -e "$system/var/lib/systemd/random-seed" ]; then as_root rm -f "$system/var/lib/systemd/random-seed"; fi
	for f in "$system"/etc/sudoers.d/*gputrain* "$system"/etc/systemd/system/*gputrain* "$system"/var/spool/cron/crontabs/*gputrain*; do
		[ ! -e "$f" ] || as_root rm -f "$f"
	done
}

# logs empties the logs, which have addresses and names of keys, and removes caches that only cost storage.
logs() {
	if [ "$may_root" = yes ]; then
		[ ! -d "$system/var/log" ] || as_root find "$system/var/log" -type f -exec sh -c 'for f; do : >"$f"; done' sh {} +
		[ ! -d "$system/var/log/journal" ] || as_root find "$system/var/log/journal" -type f -exec rm -f {} +
		if [ -z "$system" ] && have apt-get; then as_root apt-get clean; fi
		# What package managers and Setup commands have left. The cache is there if the home cannot be written to.
		[ -n "$system" ] || as_root find /tmp /var/tmp -mindepth 1 -maxdepth 1 ! -name 'gputrain-*' -exec rm -rf {} + 2>/dev/null || :
	fi
	rm -rf "$HOME/.cache/pip" "$HOME/.cache/uv"
}

histories() {
	for f in .bash_history .ash_history .sh_history .zsh_history .python_history .lesshst .wget-hsts; do
		rm -f "$HOME/$f"
		if [ "$may_root" = yes ]; then as_root rm -f "$system/root/$f"; fi
	done
}

