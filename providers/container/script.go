package container

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"

	"github.com/gputrain/gputrain"
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
	// listening is what sshd has said, in these words, for twenty years.
	listening = "Server listening on"
	// enterScript reads what nodeInput makes. A container that is started again has
	// lost its tasks, its port and whoever would send that, and so it ends at once.
	enterScript = `{ read -r was </run/gputrain/node; } 2>/dev/null
[ "$was" != "$0" ] || { echo "gputrain: a node cannot be started again" >&2; exit 1; }
exec sh -s`
	// tunnelScript serves one connection on the standard input and output.
	tunnelScript = "exec sh /run/gputrain/sshd -i"
)

// nodeInput is what a node reads from its standard input at the start: shell
// text that puts the node's files in place and becomes its SSH server. It is one
// function, so that a shell that gets half of it runs nothing.
func nodeInput(node gputrain.NodeRequest, authorizedKey string, env []string) string {
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
	b.WriteString(nodeScript + "}\nmain\n")
	return b.String()
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// keyOptions gives sessions the image's environment, which sshd would otherwise
// keep from them: without its PATH, an image of conda's has no python. The options
// of a key are understood by every sshd, old ones too. What cannot be written
// there (a line break, a backslash at the end) is left out, and so is what a login
// decides.
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
