# vast_addr INTERFACE prints the address of an interface, if it exists.
PATH=$PATH:/usr/sbin:/sbin
vast_addr() {
	if command -v ip >/dev/null; then
		ip -4 -o addr show dev "$1" | sed -n 's/.* inet \([0-9.]*\).*/\1/p' | head -n 1
	elif command -v perl >/dev/null; then
		perl -e 'socket(S, 2, 2, 0); $r = pack("a40", shift); print join(".", unpack("x20C4", $r)), "\n" if ioctl(S, 0x8915, $r)' "$1"
	else
		python3 -c 'import fcntl as f, socket as s, sys
r = sys.argv[1].encode().ljust(40, b"\0")
print(s.inet_ntoa(f.ioctl(s.socket(s.AF_INET, s.SOCK_DGRAM), 0x8915, r)[20:24]))' "$1"
	fi 2>/dev/null
}

# With an overlay network, eth0 is on it and eth1 leads out; without one, eth0 leads out.
if [ -n "$(vast_addr eth1)" ]; then vast_addr eth0; fi
