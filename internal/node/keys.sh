# Puts public keys into the login's authorized_keys, or removes them. Its stdin is "add NAME", the keys, and "end", or "remove
# NAME". Each line ends with a mark of the node NAME, which also says whether the file and its folder were made for it.
#
# It may run again, also while an earlier run goes on whose connection was cut.
umask 077
read -r op name || exit 1
d=${HOME:?}/.ssh f=${HOME:?}/.ssh/authorized_keys
mine=" gputrain:$name\\(+[a-z]*\\)*\$"

# Pools that share a login take turns, also at making and removing the folder. A lock that is half a minute old was left by
# a process that is gone.
lock() {
	l=$HOME/.gputrain-lock n=1500
	[ -w "$HOME" ] || l=$d/.gputrain-lock
	until mkdir "$l" 2>/dev/null || [ "$n" -le 0 ]; do
		n=$((n - 1))
		sleep 0.02 2>/dev/null || { sleep 1; n=$((n - 49)); }
	done
	trap 'undo; rmdir "$l" 2>/dev/null' EXIT
	trap 'exit 1' HUP INT TERM
}

# undo removes what was made for a file that did not take its place.
new= unused=
undo() {
	[ -z "$new" ] || rm -f "$new"
	[ -z "$unused" ] || rmdir "$unused"
}

# copy makes $new, a copy of the file that is to take its place, $t, at once: neither a full disk nor a process that is
# killed may lock the user out.
copy() {
	t=$f
	[ ! -h "$f" ] || t=$(readlink -f "$f") || exit 1
	new=$t.gputrain
	if [ -e "$t" ]; then
		cp -p "$t" "$new" || exit 1
	else
		: >"$new" || exit 1
	fi
}

if [ "$op" = add ]; then
	while read -r key && [ "$key" != end ]; do
		set -- "$@" "$key"
	done
	[ "$key" = end ] || exit 1 # a connection that is cut ends stdin, too
	lock
	! grep -qs "$mine" "$f" || exit 0
	made=
	if [ ! -d "$d" ]; then
		mkdir "$d" || exit 1
		made=+dir unused=$d
	fi
	[ -e "$f" ] || made=$made+file
	copy
	if [ -n "$(tail -c 1 "$new")" ]; then
		echo >>"$new" || exit 1 # the last line may lack its end
	fi
	printf "%s gputrain:$name$made\\n" "$@" >>"$new" && mv -f "$new" "$t" || exit 1
	new= unused=
	exit 0
fi

[ -e "$f" ] && grep -q "$mine" "$f" || exit 0
lock
made=$(sed -n "s/.* gputrain:$name\\(\\(+[a-z]*\\)*\\)\$/\\1/p" "$f" | head -n 1)
copy
# Keys of other nodes inherit what was made for this one.
set -- -e "/$mine/d"
for mark in dir file; do
	case $made in
	*+$mark*) set -- "$@" -e "/ gputrain:[a-z0-9-]*\\(+[a-z]*\\)*\$/{" -e "/ gputrain:[a-z0-9+-]*+$mark/!s/\$/+$mark/" -e "}" ;;
	esac
done
sed "$@" "$t" >"$new" || exit 1
case $made in
*+file*) [ -s "$new" ] || { rm -f "$new" "$t"; new=; } ;;
esac
[ -z "$new" ] || mv -f "$new" "$t" || exit 1
new=
case $made in
*+dir*) rmdir "$d" 2>/dev/null ;;
esac
exit 0
