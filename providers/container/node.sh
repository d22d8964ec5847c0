	umask 077
	PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
	mkdir -p /run/sshd && chmod 755 /run/sshd || exit 1
	if [ "$user" != root ]; then
		while IFS=: read -r name _ _ _ _ home shell; do
			[ "$name" != "$user" ] || break
		done </etc/passwd
		refuse() { echo "gputrain: user: $*" >&2; exit 1; }
		[ "$name" = "$user" ] || refuse "the image has no user $user"
		[ -d "$home" ] && [ "$home" != / ] || refuse "$user has no home folder: $home"
		case $shell in */nologin | */false) refuse "$user may not log in: its shell is $shell" ;; esac
		# sshd reads the pool's key as the user.
		chmod a+x /run && chmod 711 /run/gputrain && chmod 644 /run/gputrain/authorized_keys || exit 1
		# Only root may end process 1: the node ends when the user writes to the pipe.
		mkfifo -m 200 /run/gputrain/end && chown "$user" /run/gputrain/end || exit 1
		{ read -r _ </run/gputrain/end; kill -TERM 1; sleep 5; kill -KILL -1; } </dev/null >/dev/null 2>&1 &
	fi
	# sshd refuses a locked account, as root's is in some images, even with a key.
	# "*" allows no password either, but does not lock the account.
	if grep -q "^$user:!" /etc/shadow 2>/dev/null; then
		sed "s/^$user:![^:]*:/$user:*:/" /etc/shadow >/run/gputrain/shadow &&
			cat /run/gputrain/shadow >/etc/shadow
		rm -f /run/gputrain/shadow
	fi
	# sshd must be run by its full path. The library paths of an image must not give
	# sshd the wrong libraries.
	printf 'unset LD_LIBRARY_PATH LD_PRELOAD\nexec %s -e -f /run/gputrain/sshd_config "$@"\n' \
		"$(command -v sshd)" >/run/gputrain/sshd
	exec sh /run/gputrain/sshd -D </dev/null
