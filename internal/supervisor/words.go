package supervisor

import "strings"

// carried begins the names of the variables that carry a secret which no shell can export: "NAME=VALUE" is their value.
const carried = "GPUTRAIN_CARRIED_"

// carry is shell text that has a secret's name given to it by a program that can, in its own environment, and then becomes the
// command. No argument and no file has the secret.
const carry = `if command -v perl >/dev/null; then
	exec perl -e 'for (grep /^GPUTRAIN_CARRIED_/, keys %ENV) { my ($n, $v) = split /=/, delete $ENV{$_}, 2; $ENV{$n} = $v }
exec { $ARGV[0] } @ARGV; my $errno = $!; print STDERR "$ARGV[0]: $errno\n"; exit($errno == 2 ? 127 : 126)' -- "$@"
elif command -v python3 >/dev/null; then
	exec python3 -I -c 'import os, sys
e = os.environb
for k in [k for k in e if k.startswith(b"GPUTRAIN_CARRIED_")]:
    n, v = e.pop(k).split(b"=", 1)
    e[n] = v
try:
    os.execvp(sys.argv[1], sys.argv[1:])
except OSError as x:
    print(sys.argv[1] + ": " + x.strerror, file=sys.stderr)
    sys.exit(127 if x.errno == 2 else 126)' "$@"
fi
echo "gputrain: a secret with a dot in its name needs perl or python3 on the node; choose a name of letters, digits and _" >&2
exit 127
`

// needBash is shell text that ends a command whose shell would drop what has a dot in its name.
const needBash = `command -v bash >/dev/null || {
	echo "gputrain: sh drops variables with a dot in their names, and the node has no bash in its place; run the program without a shell, or choose names of letters, digits and _" >&2
	exit 127
}
`

// words returns the words of a command that gets others by env(1), and what exports carry, under their own names. If a name has
// a dot, bash is its sh: others, such as dash, do not hand on what is no name of theirs.
func words(args, exports, others []string) []string {
	hidden, dotted := false, false
	for _, v := range exports {
		hidden = hidden || strings.HasPrefix(v, carried)
	}
	for _, v := range others {
		name, _, _ := strings.Cut(v, "=")
		dotted = dotted || isDotted(name)
	}
	text := ""
	if args[0] == "sh" && (hidden || dotted) {
		text, args = needBash, inBash(args)
	}
	if len(others) > 0 {
		args = append(append([]string{"env"}, others...), args...)
	}
	switch {
	case hidden:
		text += carry
	case text != "":
		text += `exec "$@"`
	default:
		return args
	}
	return append([]string{"sh", "-c", text, "sh"}, args...)
}

// inBash returns the words of a sh, and of those that it becomes by what this library puts before a command, for bash.
func inBash(args []string) []string {
	if len(args) < 2 || args[0] != "sh" {
		return args
	}
	b := append([]string{"bash", "--posix"}, args[1:]...)
	switch {
	case args[1] != "-c":
	case len(args) == 3:
		b = append(b, "sh")
	case len(args) > 4 && args[3] == "sh":
		b = append(b[:5], inBash(args[4:])...)
	}
	return b
}
