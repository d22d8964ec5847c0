package node

import (
	"context"
	_ "embed"
	"strings"

	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/supervisor"
)

//go:embed keys.sh
var keysScript string

// keysCommand runs keys.sh. Its last word names it.
func keysCommand() string {
	quoted, err := supervisor.Quote(keysScript)
	if err != nil {
		panic(err) // the script has no NUL byte
	}
	return "exec sh -c " + quoted + " gputrain-keys"
}

// addKeys lets the user's own keys log in to the machine. The node's lease removes them from an adopted one, so it is
// kept already.
func (m *Machine) addKeys(ctx context.Context, client *ssh.Client) error {
	if len(m.settings.AuthorizedKeys) == 0 {
		return nil
	}
	var in strings.Builder
	in.WriteString("add " + m.Name() + "\n")
	for _, line := range m.settings.AuthorizedKeys {
		key, err := ssh.AuthorizedKey(line)
		if err != nil {
			return err
		}
		in.WriteString(key + "\n")
	}
	in.WriteString("end\n")
	_, err := repeat(ctx, client, client, keysCommand(), in.String())
	return err
}

// keyMark is in each line that addKeys adds.
func (m *Machine) keyMark() string { return " gputrain:" + m.Name() }

// removeKeys removes what addKeys has added.
func (m *Machine) removeKeys(ctx context.Context, client *ssh.Client) error {
	_, err := repeat(ctx, client, client, keysCommand(), "remove "+m.Name()+"\n")
	return err
}

// removeKeysAtLapse is the node's own removeKeys, before the text by which it ends itself.
func (m *Machine) removeKeysAtLapse(selfDestruct string) string {
	if len(m.settings.AuthorizedKeys) == 0 {
		return selfDestruct
	}
	text := "echo remove " + m.Name() + " | (" + keysCommand() + ")\n"
	if selfDestruct == "" {
		return text + "GPUTRAIN_REMOVE=1" // as without any text
	}
	return text + selfDestruct
}
