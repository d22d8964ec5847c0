	umask 077
	PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
	mkdir -p /run/sshd && chmod 755 /run/sshd || exit 1
	# An account that is locked, as root's is in some images, is refused even with
	# a key; "*" is no password either, but no lock.
	if grep -q '^root:!' /etc/shadow 2>/dev/null; then
		sed 's/^root:![^:]*:/root:*:/' /etc/shadow >/run/gputrain/shadow &&
			cat /run/gputrain/shadow >/etc/shadow
		rm -f /run/gputrain/shadow
	fi
	# sshd wants to be called by its whole path. What an image sets for its own
	# libraries must not give sshd the wrong ones.
	printf 'unset LD_LIBRARY_PATH LD_PRELOAD\nexec %s -e -f /run/gputrain/sshd_config "$@"\n' \
		"$(command -v sshd)" >/run/gputrain/sshd
	exec sh /run/gputrain/sshd -D </dev/null
