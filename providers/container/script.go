package container

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"

	"github.com/gputrain/gputrain/providers/driver"
)

var (
	//go:embed ready.sh
	readyScript string
	//go:embed node.sh
	nodeScript string
	//go:embed sshd_config
	sshdConfig string
)

const (
	// listening is sshd's message, unchanged for twenty years.
	listening = "Server listening on"
	// enterScript reads the text of nodeInput. A restarted container has lost its tasks, its
	// port and its launcher, so it ends at once.
	enterScript = `{ read -r was </run/gputrain/node; } 2>/dev/null
[ "$was" != "$0" ] || { echo "gputrain: a node cannot be started again" >&2; exit 1; }
exec sh -s`
	// tunnelScript serves one connection on the standard input and output.
	tunnelScript = "exec sh /run/gputrain/sshd -i"
)

// nodeInput returns the standard input of a starting node: a shell script that writes the
// node's files and becomes its SSH server. It is one function, so that a shell that gets half
// of it runs nothing. The pool logs in as the user.
func nodeInput(node driver.NodeRequest, authorizedKey, user string, env []string) string {
	var b strings.Builder
	b.WriteString("main() {\n\tumask 077\n\tmkdir -p /run/gputrain || exit 1\n")
	file := func(name, text string) {
		const end = "gputrain-end-of-file"
		fmt.Fprintf(&b, "cat >/run/gputrain/%s <<'%s' || exit 1\n%s\n%s\n", name, end, strings.TrimRight(text, "\n"), end)
	}
	file("node", node.Name)
	file("host_key", string(node.HostKey.Private))
	file("authorized_keys", keyOptions(env)+strings.TrimSpace(authorizedKey))
	file("sshd_config", sshdConfig)
	b.WriteString("\tuser=" + user + "\n" + nodeScript + "}\nmain\n")
	return b.String()
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// keyOptions gives sessions the image's environment, which sshd would otherwise hide: without
// its PATH, an image of conda's has no python. Every sshd, even an old one, understands these
// options of a key. Values that the form cannot hold (a line break, a backslash at the end) are
// left out, and so are variables that a login sets.
func keyOptions(env []string) string {
	var options []string
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		switch {
		case name == "HOME" || name == "USER" || name == "LOGNAME" || name == "SHELL":
			continue
		case !variableName.MatchString(name) || strings.ContainsAny(value, "\n\r\x00") || strings.HasSuffix(value, `\`):
			continue
		}
		options = append(options, fmt.Sprintf(`environment="%s=%s"`, name, strings.ReplaceAll(value, `"`, `\"`)))
	}
	if options == nil {
		return ""
	}
	return strings.Join(options, ",") + " "
}
