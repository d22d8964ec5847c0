# The runner: one small process that forks the commands of a node, reads their output, and reaps them. session.pl starts
# it, and describes its files. It serves one session at a time: the newest.
use strict;

our ($root, $EINTR, $listen);
my @signals = qw(0 HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT
	CHLD CONT STOP TSTP TTIN TTOU URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS);
delete $ENV{PERL_BADLANG}; # node.sh has set it
my %original = %ENV;     # what the login has
my (%live, %pid, %over); # tasks that run, by id and by pid, and the 'D' frames of those that have ended
my (%scratch, %dropped); # the names of their directories, and whose output is gone
my %pipe;                # [task, stream, handle] by descriptor
my %feeding;             # tasks by the pid of what types their stdin
my @blocked;             # tasks for which there was no process or descriptor
my $most;                # how many run at once at most
my $client;
my ($in, $out, $bits, $quit, $lapsed) = ('', '', '', 0, 0);
my ($journal, $uptime, $oomfile, $ooms, $oomtime, $oomseen) = (undef, undef, undef, 0, -1, -1);

my $short = 4096;   # bytes of a stream that are kept in memory
my $moment = 0.05;  # seconds; if a task runs longer, the client learns that, and its output goes to files
# feeder is perl text that copies stdin to a terminal: see feed.
my $feeder = 'my $l = "\n";
while (sysread STDIN, my $b, 1024) {
	$l = substr $b, -1;
	while (length $b) { my $n = syswrite STDOUT, $b or exit; substr $b, 0, $n, "" }
}
syswrite STDOUT, $l eq "\n" ? "\4" : "\4\4";';
my $rest = 1;       # seconds between TERM and KILL for what a command left in its group
my $late = 2;       # seconds in which what holds the output of a command that has ended may still print
my $drain = 10;     # seconds in which a filter may end, as the tee of `exec > >(tee log)` does at the end of its input

# now returns seconds of a clock that does not go back when the time is set.
sub now {
	sysseek $uptime, 0, 0;
	sysread $uptime, my $b, 32;
	return 0 + (split / /, $b)[0];
}

sub answer { $out .= "$_[0]\n" if $client }

# note adds a line to the journal. If the disk is full, forgotten lines have to make way.
sub note {
	my $line = "$_[0]\n";
	return 1 if (syswrite $journal, $line) == length $line;
	truncate $journal, 0;
	return (syswrite $journal, $line = current() . $line) == length $line;
}

# recover ends what a killed runner has left, and reports that it vanished.
sub recover {
	my %p;
	seek $journal, 0, 0;
	while (<$journal>) {
		my ($what, $id, $word) = split;
		if ($what eq 'F') { delete $_->{$id} for \%p, \%scratch, \%dropped }
		elsif ($what eq 'X') { $dropped{$id} = 1 }
		elsif ($what eq 'P') { $p{$id} = $word }
		else {
			$p{$id} = 0;
			$scratch{$id} = $word if $word;
		}
	}
	for my $id (keys %p) {
		if ($p{$id} && open my $h, '<', "/proc/$p{$id}/environ") {
			local $/;
			my $env = "\0" . <$h>;
			kill KILL => -$p{$id} if index($env, "\0GPUTRAIN_TASK=$id\0") >= 0 && ours($env);
		}
		over($id, '-1 - vanished - 0 ' . (-s "$id.out" ? 1 : 0) . ' ' . (-s "$id.err" ? '1 ' : '0 '));
	}
}

# ours reports whether an environment is that of one of this node's processes: a pid may have passed to a process of
# another user, who can write anything into it but the node's token.
sub ours {
	my $token = $original{GPUTRAIN_NODE_TOKEN} // return 1;
	return index($_[0], "\0GPUTRAIN_NODE_TOKEN=$token\0") >= 0;
}

# loop waits for events, and handles them.
sub loop {
	my ($r, $w) = ($bits, undef);
	vec($w, fileno $client, 1) = 1 if length $out;
	if (select($r, $w, undef, patience()) > 0) {
		my ($all, $fd) = (unpack('b*', $r), -1);
		while (($fd = index $all, '1', $fd + 1) >= 0) {
			if ($pipe{$fd}) { hear($fd) }
			elsif ($fd == fileno $listen) { meet() }
			elsif ($client && $fd == fileno $client) { obey() }
		}
	}
	while ((my $p = waitpid -1, 1) > 0) {
		my $status = $?;
		if (my $t = delete $pid{$p}) { ended($t, $status) }
		elsif ($t = delete $feeding{$p}) { delete $t->{feeder} }
	}
	my $now;
	for my $t (values %live) {
		tick($t, $now) if $t->{due} && ($now //= now()) >= $t->{due};
	}
	while (@blocked && !$quit) {
		my $t = shift @blocked;
		next if spawn($t);
		unshift @blocked, $t;
		last;
	}
	lay() if $quit;
	lapse() if $lapsed;
	flush() if length $out;
}

# patience returns how long nothing needs to be done: until something of a task is due, or until the next check whether
# a child has ended just before it was waited for.
sub patience {
	return 0.1 if @blocked || $quit;
	if (!%live) {
		exit 0 unless -e 'journal'; # the pool's folder was removed
		return 30;
	}
	my $due;
	for my $t (values %live) { $due = $t->{due} if $t->{due} && (!$due || $t->{due} < $due) }
	return 0.25 unless $due;
	$due -= now();
	return $due <= 0 ? 0.002 : $due < 0.25 ? $due + 0.002 : 0.25;
}

# meet accepts a new session, and drops the old one.
sub meet {
	accept(my $s, $listen) or return;
	leave() if $client;
	$client = $s;
	fcntl $client, 4, 04000;
	vec($bits, fileno $client, 1) = 1;
}

sub leave {
	vec($bits, fileno $client, 1) = 0;
	close $client;
	($client, $in, $out) = (undef, '', '');
}

sub flush {
	my $n = syswrite $client, $out;
	if (defined $n) { substr $out, 0, $n, '' } elsif ($! != 11 && $! != $EINTR) { leave() }
}

my %do = (
	start => \&start, state => \&state, cancel => \&cancel, forget => \&forget, drop => \&drop, release => \&release,
	env => sub { %ENV = %original; set(@_) },
	list => \&list,
	beat => sub {
		if (open my $h, '+<', 'lease') { syswrite $h, "$_[0]\n" }
		answer('B');
	},
	swept => sub { answer("K $_[0]") },
);

# obey executes the session's messages.
sub obey {
	my $n = sysread $client, $in, 1 << 16, length $in;
	return if !defined $n && ($! == 11 || $! == $EINTR);
	return leave() unless $n;
	while (defined(my $m = message($in))) {
		my ($what, @words) = split /\0/, substr($m, 8), -1;
		$do{$what}->(@words) if $do{$what};
	}
}

sub set {
	for (@_) {
		my $at = index $_, '=';
		$ENV{substr $_, 0, $at} = substr $_, $at + 1;
	}
}

# over reports the end of a task, and remembers it until it is forgotten.
sub over {
	my ($id, $line) = @_;
	$over{$id} = "D $id $line";
	answer($over{$id});
}

# list reports every task that was not forgotten: I ID, 1 if it is over, and the name of its scratch directory, and J at
# the end.
sub list {
	for my $id (sort keys %live, grep !$dropped{$_}, keys %over) {
		answer("I $id " . ($live{$id} ? 0 : 1) . ' ' . ($scratch{$id} || '-'));
	}
	answer('J');
}

# state ID: D done, S or G going, U unknown.
sub state {
	my ($id) = @_;
	my $t = $live{$id};
	if ($dropped{$id}) { answer("U $id") }
	elsif ($t) { answer(($t->{file}[0] || $t->{file}[1] ? 'G ' : 'S ') . $id) }
	else { answer($over{$id} || "U $id") }
}

# start ID DIR SECONDS TENTHS STDIN SCRATCH MARK HOLD TTY NENV ENV... COMMAND ARG... starts a task, or reports its state
# if it was started before.
sub start {
	my ($id, $dir, $limit, $tenths, $stdin, $scratch, $mark, $hold, $tty, $nenv, @words) = @_;
	return if $quit || $dropped{$id};
	return state($id) if $live{$id} || $over{$id};
	return answer("D $id 0 - nodisk - 1 0 0 ") unless note($scratch eq '-' ? "S $id" : "S $id $scratch");
	$scratch{$id} = $scratch if $scratch ne '-';
	return over($id, '0 - nodir - 0 0 0 ') unless -d $dir && -x _;
	return over($id, '0 - nostdin - 0 0 0 ') unless -r $stdin;
	my @env = splice @words, 0, $nenv;
	if ($scratch ne '-') {
		mkdir "../s/$scratch" or -d "../s/$scratch" or return over($id, '0 - noscratch - 0 0 0 ');
		mkdir "../s/$scratch.steps" or -d "../s/$scratch.steps" or return over($id, '0 - noscratch - 0 0 0 ');
		unshift @env, "GPUTRAIN_SCRATCH=$root/s/$scratch", "GPUTRAIN_STEPS=$root/s/$scratch.steps";
	}
	if ($mark) { open my $h, '>', "$id.start" or return over($id, '0 - nodisk - 1 0 0 ') }
	hold($id) or return over($id, '0 - nodisk - 1 0 0 ') if $hold;
	my $t = $live{$id} = {
		id => $id, dir => $dir, stdin => $stdin, hold => $hold, tty => $tty, env => ["GPUTRAIN_TASK=$id", @env], words => \@words,
		limit => $limit, grace => $tenths / 10, text => ['', ''], file => [], full => 0, lost => 0, open => 0,
	};
	oom() if now() > $oomtime + 0.1;
	$t->{ooms} = $ooms;
	push @blocked, $t if @blocked || !spawn($t);
}

# hold makes a task hold the lease until its end.
sub hold {
	my ($h, $line) = (undef, "$$ " . started($$) . " ;\n");
	return 1 if open($h, '>', "$_[0].hold") && (syswrite $h, $line) == length $line;
	unlink "$_[0].hold";
	return 0;
}

# spawn starts the command of a task, or returns false if that must wait: each may need two pipes and two files, which it
# has until it is finished, after the end of its process.
sub spawn {
	my ($t) = @_;
	return 0 if keys(%live) - @blocked > $most; # $t is live, and not among the blocked
	my ($p, $or, $ow, $er, $ew);
	if ($t->{tty} && !terminal($t, $or, $ow)) {
		finish($t, 0, '-', 'nopty');
		return 1;
	}
	if (!$t->{tty} && !pipe($or, $ow) || !pipe($er, $ew) || $t->{tty} && !feed($t, $or) || !defined($p = fork)) {
		kill KILL => $t->{feeder} if $t->{feeder};
		return 0 if %pid || $t->{tries}++ < 300;
		finish($t, 0, '-', 'nofork');
		return 1;
	}
	command($t, $ow, $ew, $or, $er) unless $p;
	if ($t->{tty}) {
		close $ew;
		sysread $er, my $b, 1; # until the command has its session: its group can be signalled from then on
	} else {
		setpgrp $p, $p; # as the command does itself: whichever comes first
	}
	note("P $t->{id} $p");
	@$t{qw(pid t0)} = ($p, now());
	delete @$t{qw(env words)};
	$pid{$p} = $t;
	hearken($t, 0, $or);
	hearken($t, 1, $er) unless $t->{tty};
	schedule($t);
	return 1;
}

# terminal makes a terminal for a task: what the command writes there is read from the first handle. The numbers are
# those of nearly all systems; elsewhere the calls fail.
sub terminal {
	my $t = $_[0];
	my ($n, $mode) = (pack('I', 0), "\0" x 64); # the calls may write to their last argument, and so it is no constant
	sysopen($_[1], '/dev/ptmx', 0402) or return 0; # O_RDWR, O_NOCTTY
	ioctl($_[1], 0x40045431, $n) && ioctl($_[1], 0x80045430, $n) or return 0; # TIOCSPTLCK, TIOCGPTN
	$t->{name} = '/dev/pts/' . unpack 'I', $n;
	sysopen($_[2], $t->{name}, 0402) && ioctl($_[2], 0x5401, $mode) or return 0; # TCGETS
	my @flags = unpack 'I4', $mode;
	$flags[1] &= ~4; # ONLCR: lines end as the command ends them
	$flags[3] &= ~8; # ECHO: what is typed is no output
	substr $mode, 0, 16, pack 'I4', @flags;
	my ($columns, $lines) = split / /, $t->{tty};
	my $size = pack 'S4', $lines, $columns, 0, 0;
	return ioctl($_[2], 0x5402, $mode) && ioctl $_[2], 0x5414, $size; # TCSETS, TIOCSWINSZ
}

# feed types a task's stdin on its terminal, and then its end: twice if a line was begun, which the first one only sends.
# A task without a stdin has none from the terminal either, where a second read would wait for ever; what it opens as
# /dev/tty has an end.
sub feed {
	my ($t, $master) = @_;
	return syswrite $master, "\4" if $t->{stdin} eq '/dev/null';
	my $p = fork;
	return 0 unless defined $p;
	if (!$p) {
		$SIG{$_} = 'DEFAULT' for qw(HUP INT QUIT PIPE CHLD TERM USR1);
		open(STDIN, '<', $t->{stdin}) && open(STDOUT, '>&', $master) && exec 'perl', '-e', $feeder;
		exit 1;
	}
	setpgrp $p, $p;
	$feeding{$t->{feeder} = $p} = $t;
	return 1;
}

# session makes this process the leader of a session of its own.
sub session {
	my %number = (62 => 112, 183 => 157, 3 => 66, 40 => 66, 243 => 157, 22 => 66, 258 => 157); # of the call, by the machine
	my $elf = '';
	if (open my $h, '<', '/proc/self/exe') { sysread $h, $elf, 20 }
	my $n = length $elf == 20 ? $number{unpack 'x18 S', $elf} : undef;
	return $n ? syscall($n) > 0 : eval { require POSIX; POSIX::setsid() > 0 };
}

# command becomes the command. It first closes what the command does not need: opening takes one more descriptor, and
# there may be none left.
sub command {
	my ($t, $out, $err, @unused) = @_;
	setpgrp 0, 0 unless $t->{tty};
	$SIG{$_} = 'DEFAULT' for qw(HUP INT QUIT PIPE CHLD TERM USR1);
	exit 143 if $quit || $lapsed; # it was meant for the task
	close $_ for @unused;
	# Of a session's leader, the terminal that is opened first is its controlling one.
	my $types = $t->{tty} && $t->{stdin} ne '/dev/null';
	unless ($t->{tty} ? session() && open(STDOUT, '+<', $t->{name}) && open(STDERR, '+<&', \*STDOUT) && ($types ? open(STDIN, '+<&', \*STDOUT) : open STDIN, '<', $t->{stdin})
		: open(STDIN, '<', $t->{stdin}) && open(STDOUT, '>&', $out) && open(STDERR, '>&', $err)) {
		syswrite $t->{tty} ? $out : $err, "cannot open the command's input or output: $!\n";
		exit 126;
	}
	close $err if $t->{tty};
	delete $ENV{OLDPWD};
	set("PWD=$t->{dir}", @{$t->{env}});
	my @words = @{$t->{words}};
	chdir $t->{dir} and exec { $words[0] } @words;
	my $errno = $!;
	syswrite STDERR, "$words[0]: $errno\n";
	exit($errno == 2 ? 127 : 126);
}

# hearken begins to listen to a stream of a task.
sub hearken {
	my ($t, $s, $h) = @_;
	my $fd = fileno $h;
	$pipe{$fd} = [$t, $s, $h];
	vec($bits, $fd, 1) = 1;
	$t->{open}++;
}

# hear reads a stream. It reads to the end whatever happens: neither a full disk nor the end of the task, which may
# leave other processes with the pipe, may block or kill the writers.
sub hear {
	my ($fd) = @_;
	my ($t, $s, $h) = @{$pipe{$fd}};
	my $n = sysread $h, my $b, 1 << 18;
	return if !defined $n && $! == $EINTR;
	if (!$n) {
		delete $pipe{$fd};
		vec($bits, $fd, 1) = 0;
		close $h;
		return if --$t->{open} || $t->{gone};
		return schedule($t) unless $t->{ended};
		leftover($t, now()) if $t->{group};
		settle($t);
		return;
	}
	return if $t->{gone};
	if (my $f = $t->{file}[$s]) {
		($t->{file}[$s], $t->{lost}) = ('none', 1) unless $f eq 'none' || keep($t, $f, $b);
		return;
	}
	$t->{text}[$s] .= $b;
	if ($t->{told} && !$t->{full} || length $t->{text}[$s] > $short) {
		fcntl $h, 1031, 1 << 20 if $n >= 1 << 16; # F_SETPIPE_SZ
		spill($t);
	}
}

# spill writes the received output to files, where further output goes from then on. On a full disk what is short stays
# in memory.
sub spill {
	my ($t) = @_;
	for my $s (0, 1) {
		next if $t->{file}[$s] || $t->{text}[$s] eq '';
		my ($file, $h) = $t->{id} . ('.out', '.err')[$s];
		if (open($h, '>', $file) && keep($t, $h, $t->{text}[$s])) { $t->{file}[$s] = $h }
		elsif (length $t->{text}[$s] > $short) { ($t->{file}[$s], $t->{lost}) = ('none', 1) }
		else { $t->{full} = unlink $file; next }
		$t->{text}[$s] = '';
	}
	answer("G $t->{id}") unless $t->{told}++ > 1;
}

# keep writes to a stream's file.
sub keep {
	my ($t, $h, $b) = @_;
	my $at = 0;
	while ($at < length $b) {
		my $n = syswrite $h, $b, length($b) - $at, $at;
		if (defined $n) { $at += $n } elsif ($! != $EINTR) { return 0 }
	}
	return 1;
}

# schedule sets when a task is checked next while its command runs.
sub schedule {
	my ($t) = @_;
	my $due = $t->{told} ? undef : $t->{t0} + $moment;
	for ($t->{kill}, $t->{limit} > 0 && !$t->{late} && !$t->{cancel} ? $t->{t0} + $t->{limit} : undef) {
		$due = $_ if $_ && (!$due || $_ < $due);
	}
	# It has closed its output: nothing else shows its end.
	if (!$t->{open} && (!$due || $due > now() + ($t->{nap} ||= 0.001))) {
		$due = now() + $t->{nap};
		$t->{nap} *= 2 if $t->{nap} < 0.1;
	}
	$t->{due} = $due;
}

# tick does what is due for a task.
sub tick {
	my ($t, $now) = @_;
	if (!$t->{ended}) {
		if ($t->{limit} > 0 && $now >= $t->{t0} + $t->{limit} && !$t->{late} && !$t->{cancel}) {
			$t->{late} = 1;
			end($t, $t->{grace});
		}
		if ($t->{kill} && $now >= $t->{kill}) {
			kill KILL => -$t->{pid};
			$t->{kill} = undef;
		}
		if (!$t->{told} && $now >= $t->{t0} + $moment) {
			$t->{told} = 1;
			if ($t->{text}[0] ne '' || $t->{text}[1] ne '') { spill($t) } else { answer("S $t->{id}") }
		}
		return schedule($t);
	}
	$t->{waited} += $t->{nap}; # and not by the clock, which goes on for a machine that stands still
	if ($t->{group}) {
		leftover($t, $now);
		return settle($t);
	}
	# The output of the group is in the pipes. Other processes that hold them, such as a daemon that was left, have a
	# moment to end, and are not listened to for ever.
	$t->{alone} += $t->{nap};
	my $r = '';
	for (keys %pipe) { vec($r, $_, 1) = 1 if $pipe{$_}[0] == $t }
	$t->{gone} = 1 if $t->{alone} >= 60 || $t->{alone} >= $late && !select $r, undef, undef, 0;
	settle($t);
}

# leftover ends what a command has left in its group. What holds its output may print for a moment, as under ssh, unless a signal
# has ended the command. A filter may first read what the others have written.
sub leftover {
	my ($t, $now) = @_;
	return $t->{group} = 0 unless kill 0, -$t->{pid};
	if ($t->{kill}) {
		return if $now < $t->{kill};
		kill KILL => -$t->{pid};
		($t->{kill}, $t->{giveup}) = (undef, $t->{waited} + 0.5);
	}
	if ($t->{giveup}) {
		$t->{group} = 0 if $t->{waited} >= $t->{giveup};
		return;
	}
	return if $t->{waited} < $t->{look};
	return if $t->{open} && !$t->{gone} && !$t->{tty} && $t->{sig} eq '-' && $t->{waited} < $late;
	my ($filters, @others) = members($t->{pid});
	if (!$filters && !@others) { $t->{group} = 0 } # zombies, which no process reaps
	elsif (!$filters || $t->{waited} >= $drain) { end($t, $rest) }
	elsif (@others) {
		kill $t->{asked}++ ? 'KILL' : 'TERM', @others;
		kill CONT => @others;
		$t->{look} = $t->{waited} + $rest;
	} else { $t->{look} = $t->{waited} * 1.25 }
}

# members returns how many processes of a group are filters, whose stdin is a pipe, and the others.
sub members {
	my ($group, $filters, @others) = ($_[0], 0);
	opendir my $dir, '/proc' or return 0;
	for my $p (grep /^\d/, readdir $dir) {
		open my $h, '<', "/proc/$p/stat" or next;
		sysread $h, my $b, 4096;
		my ($state, undef, $g) = split / /, substr $b, 2 + rindex $b, ')';
		next if $g != $group || $state =~ /[ZX]/;
		if (-p "/proc/$p/fd/0") { $filters++ } else { push @others, $p }
	}
	return ($filters, @others);
}

# end ends the processes of a task: TERM now, and KILL after the grace.
sub end {
	my ($t, $seconds) = @_;
	kill TERM => -$t->{pid};
	kill CONT => -$t->{pid};
	my $at = now() + $seconds;
	$t->{kill} = $at unless $t->{kill} && $t->{kill} < $at;
}

# ended handles the end of a command. What it left in its group ends with it.
sub ended {
	my ($t, $status) = @_;
	my $sig = $status & 127;
	$t->{ms} = int((now() - $t->{t0}) * 1000 + 0.5);
	$t->{code} = $sig ? 128 + $sig : $status >> 8;
	$t->{sig} = $sig ? $signals[$sig] || "RT$sig" : '-';
	# Several may end at once, and the count may be read between a kill and the end that it causes.
	$t->{oom} = 1 if $t->{code} == 137 && oom() > $t->{ooms} && now() < $oomseen + 5;
	@$t{qw(ended group waited alone look)} = (1, 1, 0, 0, 0);
	end($t, $rest) if $t->{cancel} || $t->{late};
	leftover($t, now());
	settle($t);
}

# settle finishes a task when its group is gone and its output is here.
sub settle {
	my ($t) = @_;
	if ($t->{group} || $t->{open} && !$t->{gone}) {
		$t->{nap} = $t->{waited} < 0.2 ? 0.02 : 0.1;
		$t->{due} = now() + $t->{nap};
	} else {
		my $cause = $t->{sig} eq '-' ? 'exit' : 'signal';
		$cause = 'oom' if $t->{oom};
		$cause = 'lapsed' if $t->{lapsed};
		$cause = 'cancelled' if $t->{cancel};
		$cause = 'timedout' if $t->{late};
		finish($t, $t->{code}, $t->{sig}, $cause);
	}
}

# finish reports the end of a task: 1 for what was lost on a full disk, and 2 for a step file, are added; for each stream 0
# means empty, 1 in its file, 2 quoted in the text that follows.
sub finish {
	my ($t, $code, $sig, $cause) = @_;
	my @text = map { $_ eq '' ? '' : quote($_) } @{$t->{text}};
	my @where = map { $t->{file}[$_] ? 1 : $text[$_] eq '' ? 0 : 2 } 0, 1;
	$t->{lost} = 1 if $code && !room(); # that may be why
	delete $live{$t->{id}};
	@$t{qw(gone due file)} = (1, undef, []);
	unlink "$t->{id}.hold" if $t->{hold};
	kill KILL => $t->{feeder} if $t->{feeder};
	over($t->{id}, join ' ', $code, $sig, $cause, $t->{ms} // '-', $t->{lost} | stepped($t->{id}), @where, join '', @text);
}

# stepped returns 2 for a task that has left a step file, and else 0.
sub stepped {
	my $scratch = $scratch{$_[0]} or return 0;
	opendir my $h, "../s/$scratch.steps" or return 0;
	while (defined(my $f = readdir $h)) { return 2 if $f =~ /^[0-9]/ }
	return 0;
}

# room reports whether a file can be written.
sub room {
	my $h;
	my $ok = open($h, '>', 'room') && (syswrite $h, ' ' x 4096) == 4096;
	unlink 'room';
	return $ok;
}

# quote quotes as bash's printf %q may.
sub quote {
	my ($s) = @_;
	$s =~ s/([^ -&(-\[\]-~])/sprintf '\\%03o', ord $1/ge;
	return "\$'$s' ";
}

# cancel ID TENTHS ends a task, or makes sure that it never starts.
sub cancel {
	my ($id, $tenths) = @_;
	my $t = $live{$id};
	return state($id) if $over{$id};
	if (!$t) {
		note("S $id");
		return over($id, '0 - never - 0 0 0 ');
	}
	if ($t->{ended}) { hush($t) }
	elsif ($t->{pid}) {
		$t->{cancel} = 1;
		end($t, $tenths / 10);
		schedule($t);
	} else {
		@blocked = grep { $_ != $t } @blocked;
		finish($t, 0, '-', 'never');
	}
}

# forget ID... removes what is left of finished tasks.
sub forget {
	note(join "\n", map "F $_", @_);
	for my $id (@_) {
		delete $_->{$id} for \%over, \%scratch, \%dropped;
		unlink "$id.start", "$id.out", "$id.err", "$id.in", "$id.sh";
	}
	compact() if -s $journal > 1 << 20;
}

# current returns the lines that the journal must have.
sub current {
	return join '', map("S $_ " . ($scratch{$_} || '') . "\n", keys %over, keys %live),
		map("X $_\n", keys %dropped), map("P $_->{id} $_->{pid}\n", grep $_->{pid}, values %live);
}

# compact leaves in the journal only what is not forgotten.
sub compact {
	my $text = current();
	open my $h, '+>>', 'journal.new' or return;
	if (truncate($h, 0) && (syswrite $h, $text) == length $text && rename 'journal.new', 'journal') { $journal = $h }
}

# drop ID... removes the output of finished tasks that must not start again.
sub drop {
	note(join "\n", map "X $_", @_);
	for my $id (@_) {
		$dropped{$id} = 1;
		unlink "$id.out", "$id.err", "$id.in", "$id.sh";
	}
}

# release DIR... removes scratch directories, and the folders of step files beside them.
sub release {
	my @full = grep { !rmdir "../s/$_" and $! != 2 } map { ($_, "$_.steps") } @_;
	return unless @full;
	my $p = fork;
	return if !defined $p || $p;
	$SIG{$_} = 'DEFAULT' for qw(HUP INT QUIT PIPE CHLD TERM USR1);
	chdir '../s' and exec 'sh', '-c', 'rm -rf -- "$@" || { chmod -R u+rwx -- "$@"; rm -rf -- "$@"; }', 'sh', @full;
	exit 1;
}

# hush ends what a command has left, and listens no longer to what holds its output.
sub hush {
	my ($t) = @_;
	@$t{qw(waited alone look)} = ($drain, 60, 0);
}

# lay ends the runner, and every task with it.
sub lay {
	for my $t (@blocked) { delete $live{$t->{id}} }
	@blocked = ();
	exit 0 unless %live;
	return if $quit++ > 1;
	for my $t (values %live) {
		if ($t->{ended}) { hush($t); next }
		$t->{cancel} = 1;
		end($t, 2);
		schedule($t);
	}
}

# lapse ends every task, since the lease has. What has ended is kept.
sub lapse {
	$lapsed = 0;
	for my $t (@blocked) { finish($t, 0, '-', 'lapsed') }
	@blocked = ();
	for my $t (values %live) {
		if ($t->{ended}) { $t->{waits} = 600; next }
		$t->{lapsed} = 1;
		end($t, 2);
		schedule($t);
	}
}

# oom returns how many processes the kernel has ended for their memory.
sub oom {
	$oomtime = now();
	if ($oomfile && open my $h, '<', $oomfile) {
		sysread $h, my $b, 4096;
		my $before = $ooms;
		$ooms = $1 if $b =~ /^oom_kill (\d+)/m;
		$oomseen = $oomtime if $ooms > $before;
	}
	return $ooms;
}

sub findmost {
	my $files = 1024;
	if (open my $h, '<', '/proc/self/limits') {
		/^Max open files\s+(\d+)/ and $files = $1 while <$h>;
	}
	$most = $files > 52 ? int(($files - 32) / 4) : 5;
}

sub findoom {
	open my $h, '<', '/proc/self/cgroup' or return;
	while (<$h>) {
		chomp;
		my (undef, $what, $path) = split /:/, $_, 3;
		my @files = $what eq '' ? ("/sys/fs/cgroup$path/memory.events", '/sys/fs/cgroup/memory.events')
			: ",$what," =~ /,memory,/ ? ("/sys/fs/cgroup/memory$path/memory.oom_control", '/sys/fs/cgroup/memory/memory.oom_control') : ();
		for (@files) {
			next unless -r;
			$oomfile = $_;
			return;
		}
	}
}

open $uptime, '<', '/proc/uptime' or exit 1;
open $journal, '+>>', 'journal' or exit 1;
$SIG{$_} = 'IGNORE' for qw(HUP INT QUIT PIPE);
$SIG{CHLD} = sub { }; # it interrupts select
$SIG{TERM} = sub { $quit = 1 };
$SIG{USR1} = sub { $lapsed = 1 };
findoom();
findmost();
recover();
vec($bits, fileno $listen, 1) = 1;
loop() while 1;
