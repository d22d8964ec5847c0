package supervisor

import (
	"fmt"
	"slices"
	"strings"
)

// Login returns shell text that replaces a POSIX shell by the user's own: in WorkDir, with the environment of the node's
// tasks, and no history file. What it starts is the node's, and ends with it. The text may hold secrets: it goes over stdin, and never into an
// argument.
func Login(n *Node) (string, error) {
	n.mu.Lock()
	base := n.base
	n.mu.Unlock()
	_, others, err := base.variables(nil, nil)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "GPUTRAIN_NODE_TOKEN=\n[ ! -s %[1]s ] || read -r GPUTRAIN_NODE_TOKEN <%[1]s\n", quote(n.facts.Root+"/t/mark"))
	b.WriteString("[ -n \"$GPUTRAIN_NODE_TOKEN\" ] && export GPUTRAIN_NODE_TOKEN || unset GPUTRAIN_NODE_TOKEN\n")
	for _, v := range slices.Concat([]string{"GPUTRAIN_POOL=" + n.cfg.PoolID, "GPUTRAIN_NODE=" + n.cfg.Name, "HISTFILE="}, base.exports()) {
		fmt.Fprintf(&b, "export %s\n", quote(v))
	}
	fmt.Fprintf(&b, "cd %s\nexec", quote(n.facts.WorkDir))
	if len(others) > 0 {
		b.WriteString(" env")
	}
	for _, v := range others {
		b.WriteString(" " + quote(v))
	}
	b.WriteString(" \"${SHELL:-/bin/sh}\"\n")
	return b.String(), nil
}
