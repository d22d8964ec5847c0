# A session with the runner: the node's side of commands on a Linux with perl, which
# nearly all nodes are. Together they do the work of tasks.sh in half the time. They
# use no module, since each takes longer to load than perl itself.
#
#   perl session.pl ROOT
#
# reads messages from stdin and prints frames, as tasks.sh's reporter does. If no
# runner serves t/sock, it first starts one, which outlives it.
#
# A message is eight digits, the length of what follows, and words with NUL
# between them: a function of tasks.sh without its gt_, and its arguments.
#
# Files, in t/ of the pool's folder, the working directory of both:
#   runner           "pid start-time ;"
#   journal          "S ID SCRATCH" before a task is started, "P ID PID" after: a
#                    runner that reads it, since the last one was killed, starts
#                    nothing twice. "X ID" when the task's output was dropped,
#                    "F ID" when the task was forgotten
#   ID.out ID.err    output that is long, or of a task that runs for a while
#   ID.in ID.sh      stdin and a long script, put there by the client
#   ID.start         made when the task was started, if that is asked for
#   ID.hold          "pid start-time ;" of the runner, while a task runs that holds
#                    the lease
use strict;

our ($root) = @ARGV;
our $EINTR = 4;
our $listen;

# put writes all of a text to a session, or ends.
sub put {
	my ($h, $b) = @_;
	my $at = 0;
	while ($at < length $b) {
		my $n = syswrite $h, $b, length($b) - $at, $at;
		if (defined $n) { $at += $n } elsif ($! != $EINTR) { exit 1 }
	}
}

# message takes the first complete message from a buffer, or returns undef.
sub message {
	return undef if length $_[0] < 8;
	my $n = 8 + substr $_[0], 0, 8;
	return undef if length $_[0] < $n;
	return substr $_[0], 0, $n, '';
}

sub talk {
	my ($s, @dir) = (undef, stat '.');
	fail() unless @dir && $dir[4] == $> && !($dir[2] & 022); # another user may serve a socket there
	unless (dial($s)) {
		serve();
		dial($s) or fail();
	}
	put(\*STDOUT, facts() . "H 0 perl\n");
	my ($bits, $in, $out) = ('', '', '');
	vec($bits, 0, 1) = vec($bits, fileno $s, 1) = 1;
	while (1) {
		select(my $r = $bits, undef, undef, undef) > 0 or next;
		if (vec $r, fileno $s, 1) {
			sysread $s, $out, 1 << 16, length $out or exit 1;
			put(\*STDOUT, substr $out, 0, 1 + rindex($out, "\n"), '');
		}
		next unless vec $r, 0, 1;
		sysread STDIN, $in, 1 << 16, length $in or exit 0;
		my $on = '';
		while (defined(my $m = message($in))) {
			# Output in files need not pass the runner.
			if (substr($m, 8, 4) eq "ask\0") { ask(split /\0/, substr($m, 12), -1) } else { $on .= $m }
		}
		put($s, $on);
	}
}

sub dial { return socket($_[0], 1, 1, 0) && connect $_[0], pack 'S a*', 1, 'sock' }

sub fail {
	put(\*STDOUT, "E runner\n");
	exit 1;
}

# started returns the start time of a process: its pid alone may be reused.
sub started {
	open my $h, '<', "/proc/$_[0]/stat" or return '-';
	sysread $h, my $b, 4096;
	return (split / /, substr $b, 2 + rindex $b, ')')[19];
}

# facts returns the facts that take a shell several processes to find. The platform is that of perl itself, as its file
# shows.
sub facts {
	my ($elf, $cpus) = ('', 0);
	if (open my $h, '<', '/proc/self/exe') { sysread $h, $elf, 20 }
	my ($order, $machine) = unpack 'x5 C x12 S', $elf;
	my %arch = (62 => 'x86_64', 183 => 'aarch64', 3 => 'i386', 40 => 'armv7l', 243 => 'riscv64', 22 => 's390x', 258 => 'loongarch64');
	$arch{21} = $order == 1 ? 'ppc64le' : 'ppc64';
	chomp(my $arch = $arch{$machine} || `uname -m`);
	open my $h, '<', '/proc/self/status';
	while (<$h>) {
		next unless /^Cpus_allowed_list:\s*(\S+)/;
		for (split /,/, $1) { $cpus += /(\d+)-(\d+)/ ? $2 - $1 + 1 : 1 }
	}
	return "F os Linux\nF arch $arch\nF uid $>\nF cpus $cpus\n";
}

# ask TOKEN BUDGET (ID OUT ERR FINAL)... sends each stream from the offset OUT or ERR on, up to BUDGET bytes; with FINAL
# 1, also its length.
sub ask {
	my ($token, $budget, @rest) = @_;
	while (my ($id, $out, $err, $final) = splice @rest, 0, 4) {
		for (['o', "$id.out", $out], ['e', "$id.err", $err]) {
			my ($s, $file, $at) = @$_;
			my $size = -s $file || 0;
			put(\*STDOUT, "Z $id $s $size\n") if $final;
			my $n = $size - $at;
			$n = $budget if $n > $budget;
			emit($file, "O $id $s $at $n\n", $at, $n) if $n > 0;
		}
	}
	put(\*STDOUT, "P $token\n");
}

# emit sends N bytes of a file after a head that announces them. If the file has
# become shorter meanwhile, zeros take their place.
sub emit {
	my ($file, $b, $at, $n) = @_;
	open my $h, '<', $file;
	sysseek $h, $at, 0;
	while ($n > 0) {
		my $most = $n < 1 << 18 ? $n : 1 << 18;
		my $m = sysread $h, $b, $most, length $b;
		if (!$m) { $b .= "\0" x ($m = $most) }
		$n -= $m;
		put(\*STDOUT, $b);
		$b = '';
	}
}

# serve starts a runner.
sub serve {
	unlink 'sock';
	socket($listen, 1, 1, 0) && bind($listen, pack 'S a*', 1, 'sock') && listen $listen, 8 or fail();
	my $flags = fcntl $listen, 4, 04000; # F_SETFL, O_NONBLOCK, with their values on nearly all systems
	fail() unless $flags && (fcntl $listen, 3, 0) & 04000;
	my ($p, $h) = fork;
	fail() unless defined $p;
	if ($p) {
		my $line = "$p " . started($p) . " ;\n";
		unless (open($h, '>', 'runner') && (syswrite $h, $line) == length $line) {
			kill KILL => $p;
			fail();
		}
		close $listen;
		return;
	}
	# No process may wait for it because it holds the session's streams.
	open STDIN, '<', '/dev/null';
	open STDOUT, '>', '/dev/null';
	open STDERR, '>', '/dev/null';
	setpgrp 0, 0;
	do '../runner.pl';
	exit 1;
}

talk();
