package transfer

import "strings"

// quote quotes a text without NUL as one word of sh.
func quote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// words quotes each text as a word of sh, with a space before it.
func words(texts []string) string {
	var b strings.Builder
	for _, t := range texts {
		b.WriteByte(' ')
		b.WriteString(quote(t))
	}
	return b.String()
}

// missing is the exit status of a script that does not find the file to read.
const missing = "66"

// prelude begins every script. It sets English messages and defines a way to fail.
const prelude = `LC_ALL=C; export LC_ALL
fail() { printf '%s\n' "$1" >&2; exit 1; }
`

// removeStage makes a script remove $s however it ends. If the session is cut or closed, the script's input ends first,
// and the script then fails.
const removeStage = `trap 'rm -rf "$s"' EXIT
trap 'exit 1' HUP INT PIPE TERM
`

// script returns a command that runs text by sh, whatever the user's shell is. Each of vars, "name=value", is set
// first.
func script(text string, vars ...string) string {
	var b strings.Builder
	b.WriteString(prelude)
	for _, v := range vars {
		name, value, _ := strings.Cut(v, "=")
		b.WriteString(name + "=" + quote(value) + "\n")
	}
	b.WriteString(text)
	return "exec sh -c " + quote(b.String())
}
