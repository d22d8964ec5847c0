use strict;
use Socket qw(:DEFAULT getaddrinfo getnameinfo NI_NUMERICHOST NI_NUMERICSERV);
my ($mode, $family, $limit, $token, @rest) = @ARGV;
$SIG{PIPE} = "IGNORE";
alarm $limit;
sub say_ { syswrite STDOUT, join(" ", @_) . "\n" }
sub addr { my ($host, $port, %more) = @_; my ($err, @all) = getaddrinfo($host, $port, { socktype => SOCK_STREAM, %more }); $err ? () : @all }
if ($mode eq "listen") {
	my (%open, $bits);
	vec($bits, 0, 1) = 1;
	for my $port (@rest) {
		my ($a) = addr($family eq "6" ? "::" : "0.0.0.0", $port);
		if ($a && socket(my $s, $a->{family}, SOCK_STREAM, 0)) {
			setsockopt($s, SOL_SOCKET, SO_REUSEADDR, 1);
			if (bind($s, $a->{addr}) && listen($s, 64)) {
				my (undef, undef, $at) = getnameinfo(getsockname($s), NI_NUMERICHOST | NI_NUMERICSERV);
				$open{fileno $s} = $s;
				vec($bits, fileno $s, 1) = 1;
				say_("port", $port, $at);
				next;
			}
		}
		say_("busy", $port, "$!");
	}
	say_("ready");
	while (1) {
		next if select(my $now = $bits, undef, undef, undef) < 1;
		if (vec($now, 0, 1)) { exit 0 unless sysread STDIN, my $more, 4096 }
		for my $n (keys %open) {
			my $c;
			next unless vec($now, $n, 1) && accept($c, $open{$n});
			syswrite $c, "$token\n";
			close $c;
		}
	}
}
while (my ($n, $host, $port, $want) = splice @rest, 0, 4) {
	my $child = fork;
	next if $child;
	say_("fail", $n, "$!") unless defined $child;
	next unless defined $child;
	my $why = "timed out";
	$SIG{ALRM} = sub { say_("fail", $n, $why); exit };
	alarm 6;
	for (1 .. 20) { # a peer with nc does not listen for a moment after each connection
		for my $a (addr($host, $port)) {
			my $c;
			socket($c, $a->{family}, SOCK_STREAM, 0) && connect($c, $a->{addr}) or $why = "$!", next;
			my $got = <$c>;
			$why = "nothing is answered", next unless defined $got;
			chomp $got;
			say_($got eq $want ? "ok" : "wrong", $n, substr($got, 0, 80));
			exit;
		}
		select undef, undef, undef, 0.2;
	}
	say_("fail", $n, $why);
	exit;
}
1 while wait > 0;
say_("end");
