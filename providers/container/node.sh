	umask 077
	PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
	mkdir -p /run/sshd && chmod 755 /run/sshd || exit 1
	# sshd refuses a locked account, as root's is in some images, even with a key.
	# "*" allows no password either, but does not lock the account.
	if grep -q '^root:!' /etc/shadow 2>/dev/null; then
		sed 's/^root:![^:]*:/root:*:/' /etc/shadow >/run/gputrain/shadow &&
			cat /run/gputrain/shadow >/etc/shadow
		rm -f /run/gputrain/shadow
	fi
	# sshd must be run by its full path. The library paths of an image must not give
	# sshd the wrong libraries.
	printf 'unset LD_LIBRARY_PATH LD_PRELOAD\nexec %s -e -f /run/gputrain/sshd_config "$@"\n' \
		"$(command -v sshd)" >/run/gputrain/sshd
	exec sh /run/gputrain/sshd -D </dev/null
