#!/usr/bin/env bash
# Compares gputrain with OpenSSH, golang.org/x/crypto/ssh, GNU parallel, pdsh,
# rsync, net/rpc, bigmachine and dask on this machine, and prints one table.
#
#   internal/test/bench/compare.sh [-short] [ROW...]
#
#   -short  smaller sizes and fewer turns, to see that it works
#   ROW     command commands functions watched connect upload files stdout idle;
#           none means all
#
# As root it installs missing programs from Debian's packages. Otherwise, or
# if there is no package, it reports what it leaves out. bigmachine is built
# from the Go module in bigmachine/.
#
# The exit status is 0 even if targets are missed; it is 1 if something
# that is installed did not run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

size=full
rows=()
for arg in "$@"; do
	case $arg in
	-short) size=short ;;
	-h | -help | --help)
		sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' compare.sh
		exit
		;;
	-*)
		echo "compare.sh: no flag is called $arg; see compare.sh -h" >&2
		exit 2
		;;
	*) rows+=("$arg") ;;
	esac
done

# Debian's own python3 is the one that its python3-distributed is for.
python=/usr/bin/python3
has_dask() { "$python" -c 'import distributed' 2>/dev/null; }

# Packages by a program that each brings.
missing=()
for pair in sshd:openssh-server ssh:openssh-client scp:openssh-client parallel:parallel rsync:rsync tar:tar pdsh:pdsh; do
	PATH=$PATH:/usr/sbin:/sbin command -v "${pair%%:*}" >/dev/null || missing+=("${pair#*:}")
done
has_dask || missing+=(python3-distributed)
if [ ${#missing[@]} -gt 0 ]; then
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		export DEBIAN_FRONTEND=noninteractive
		apt-get -qq -o DPkg::Lock::Timeout=300 update >&2
		for package in "${missing[@]}"; do # one by one: what cannot be had is left out
			apt-get -qq -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "$package" >&2 ||
				echo "compare.sh: $package cannot be installed" >&2
		done
	else
		echo "compare.sh: not root on a Debian, so these stay missing: ${missing[*]}" >&2
	fi
fi

# All that is made lies below one folder, and all that is started belongs to
# the process group of one program.
tmp=$(mktemp -d)
pid=
status=0
# shellcheck disable=SC2317 # the trap gets there
finish() {
	if [ -n "$pid" ]; then
		kill -TERM "$pid" 2>/dev/null || true
		reap
	fi
	if [ -s "$tmp/table" ]; then
		echo
		cat "$tmp/table"
	fi
	rm -rf "$tmp"
}
# reap waits for the program, also when a signal interrupts the waiting.
reap() {
	while [ -n "$pid" ]; do
		wait "$pid" && status=0 || status=$?
		if ! kill -0 "$pid" 2>/dev/null; then
			kill -KILL -- "-$pid" 2>/dev/null || true # what it could not end itself
			pid=
		fi
	done
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

echo "building" >&2
go test -c -o "$tmp/compare" .
bigmachine=$tmp/bigmachine
built=0
if ! (cd bigmachine && go build -o "$bigmachine" .); then
	echo "compare.sh: bigmachine does not build: it is left out" >&2
	bigmachine=
	built=1
fi

# A process group of its own keeps Ctrl-C from the servers, so that the program
# can end everything in order.
set -m
TMPDIR=$tmp GPUTRAIN_REQUIRE_SSHD=1 "$tmp/compare" -test.run '^TestCompare$' -test.timeout 30m -size "$size" \
	-rows "$(IFS=, && echo "${rows[*]}")" -table "$tmp/table" -bigmachine "$bigmachine" -python "$python" </dev/null >"$tmp/log" &
pid=$!
set +m
reap
if [ "$status" != 0 ]; then
	cat "$tmp/log" >&2
	exit 1
fi
exit "$built"
