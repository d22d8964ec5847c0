has() { command -v "$1" >/dev/null 2>&1; }
if has perl; then
	exec perl -e '
		use strict; use IO::Socket;
		my ($h, $p) = @ARGV;
		my %to = (PeerHost => $h, PeerAddr => $h, PeerPort => $p, Proto => "tcp", Type => SOCK_STREAM);
		my $s = eval { require IO::Socket::IP; 1 } ? IO::Socket::IP->new(%to) : IO::Socket::INET->new(%to);
		sub all { my ($to, $b) = @_; while (length $b) { my $n = syswrite $to, $b; return 0 unless defined $n; substr($b, 0, $n) = ""; } 1 }
		$SIG{PIPE} = "IGNORE";
		binmode STDIN; binmode STDOUT;
		if (!$s) { my $e = "$!"; $e = "$@" if $e eq "" or $e =~ /^Invalid argument/ and $@ ne ""; all(\*STDOUT, "R$e"); exit 1 }
		all(\*STDOUT, "C") or exit 1;
		my $b;
		my $k = fork;
		exit 1 unless defined $k;
		if (!$k) {
			close STDOUT;
			while (sysread STDIN, $b, 65536) { all($s, $b) or exit 1 }
			shutdown $s, 1;
			exit 0;
		}
		close STDIN;
		while (sysread $s, $b, 65536) { all(\*STDOUT, $b) or last }
		close STDOUT;
		shutdown $s, 0;
		waitpid $k, 0;
	' "$1" "$2"
elif has python3; then
	exec python3 -c '
import os, socket, sys, threading
try:
    s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
except OSError as e:
    os.write(1, ("R" + (e.strerror or str(e))).encode())
    sys.exit(1)
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
os.write(1, b"C")
def there():
    try:
        while True:
            b = os.read(0, 65536)
            if not b:
                break
            s.sendall(b)
        s.shutdown(socket.SHUT_WR)
    except OSError:
        pass
t = threading.Thread(target=there)
t.start()
try:
    while True:
        b = s.recv(65536)
        if not b:
            break
        while b:
            b = b[os.write(1, b):]
except OSError:
    pass
os.close(1)
t.join()
' "$1" "$2"
elif has nc; then
	# nc does not report that it is connected, so another connection shows first whether it could be. OpenBSD's passes the
	# end of its stdin on only with -N.
	end=
	case $(nc -h 2>&1) in *-N*) end=-N ;; esac
	if why=$(nc -z -w 10 "$1" "$2" </dev/null 2>&1); then
		printf C
		exec nc $end "$1" "$2"
	fi
	case $why in
	*option*) printf N ;;
	*efused* | "") printf 'RConnection refused' ;;
	*) printf 'R%s' "$why" ;;
	esac
else
	printf N
fi
