# Listens on ports, or dials those of others, with the first tool that the node has: perl, which starts the fastest, python3 or nc. peer.py and peer.pl
# define what is printed; $python and $perl are their text. Arguments: listen|dial 4|6 LIMIT TOKEN, and for listen ports, of
# which 0 is any, for dial NUMBER HOST PORT TOKEN of each peer.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
if perl -MSocket=getaddrinfo -e 1 </dev/null >/dev/null 2>&1; then
	exec perl -e "$perl" "$@"
fi
if python3 -IS -c 'import socket, threading' </dev/null >/dev/null 2>&1; then
	exec python3 -IS -c "$python" "$@"
fi
nc=
if command -v nc >/dev/null 2>&1; then
	nc=nc
elif command -v busybox >/dev/null 2>&1 && busybox nc --help 2>&1 | grep -q -e -l; then
	nc='busybox nc'
else
	echo none
	exit
fi

mode=$1 limit=$3 token=$4
shift 4
nap() { sleep 0.1 2>/dev/null || sleep 1; }

# is_open PORT: something listens on it.
is_open() { cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -q "^ *[0-9]*: [0-9A-F]*:$(printf %04X "$1") [0-9A-F:]* 0A "; }

# opens PORT PID: the process listens on the port within four seconds.
opens() {
	n=0
	until is_open "$1"; do
		n=$((n + 1))
		[ "$n" -lt 40 ] && kill -0 "$2" 2>/dev/null || return 1
		nap
	done
}

# serve PORT FLAGS: nc serves one connection after the other, until TERM.
serve() {
	over=$! # another process's, or empty
	trap '[ "$!" = "$over" ] || kill -9 "$!" 2>/dev/null; exit' TERM
	while :; do
		printf '%s\n' "$token" | $nc $2 "$1" >/dev/null 2>&1 &
		wait "$!"
		over=$!
		nap
	done
}

# open PORT has nc listen on it. It fails if nc does not. The first nc only tells whether it knows the flags, and can have the port:
# later its exit status says nothing.
open() {
	for flags in '-l -p' -l; do # OpenBSD's has no -p with -l
		$nc $flags "$1" </dev/null >/dev/null 2>&1 &
		first=$!
		if opens "$1" "$first"; then works=1; else works=; fi
		kill "$first" 2>/dev/null
		wait "$first" 2>/dev/null
		first=
		[ "$works" ] || continue
		serve "$1" "$flags" </dev/null &
		loops="$loops $!"
		opens "$1" "$!"
		return
	done
	return 1
}

# finish ends what runs beside this shell. What was forked a moment ago may drop a TERM that comes before its own trap, so it gets
# more. It may also not be noted yet.
finish() {
	trap '' HUP INT TERM
	for one in $loops $first $!; do
		n=0
		while kill "$one" 2>/dev/null && [ "$n" -lt 40 ]; do
			n=$((n + 1))
			nap
		done
	done
}

if [ "$mode" = listen ]; then
	loops= first=
	trap finish EXIT
	trap 'exit 1' HUP INT TERM
	for port; do
		tries=1
		if [ "$port" = 0 ]; then # below the ports that kernels give to connections
			port=$(($$ % 10000 + 20000)) tries=5
		elif is_open "$port"; then
			echo "busy $port it is in use"
			continue
		fi
		while :; do
			if ! is_open "$port" && open "$port"; then
				echo "port $port $port"
				break
			fi
			tries=$((tries - 1))
			if [ "$tries" = 0 ]; then
				echo "busy $port nc does not listen"
				break
			fi
			port=$((port + 101))
		done
	done
	echo ready
	bounded=
	command -v timeout >/dev/null 2>&1 && bounded="timeout $limit"
	$bounded cat >/dev/null
	exit 0
fi

dir=$(mktemp -d) || exit
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM

# dial NUMBER HOST PORT TOKEN: nc's listener is gone for a moment after each connection, so that it is tried again.
dial() {
	n=0
	while [ "$n" -lt 50 ]; do
		: >"$dir/$1"
		$nc -w 5 "$2" "$3" </dev/null >"$dir/$1" 2>"$dir/$1.err" &
		pid=$!
		while kill -0 "$pid" 2>/dev/null && [ ! -s "$dir/$1" ] && [ "$n" -lt 60 ]; do
			n=$((n + 1))
			nap
		done
		kill "$pid" 2>/dev/null
		wait "$pid" 2>/dev/null
		[ -s "$dir/$1" ] && break
		n=$((n + 5))
		nap
	done
	got=$(head -n 1 "$dir/$1" | tr -d '\r')
	case $got in
	"$4") echo "ok $1" ;;
	'') echo "fail $1 $(head -n 1 "$dir/$1.err" | cut -c 1-200)" ;;
	*) echo "wrong $1 $(printf %s "$got" | cut -c 1-80)" ;;
	esac
}

dials=
while [ $# -ge 4 ]; do
	dial "$1" "$2" "$3" "$4" &
	dials="$dials $!"
	shift 4
done
wait $dials
echo end
