package local

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"os"
	"time"
)

// killTimeout bounds how long killed processes may take to vanish.
const killTimeout = 10 * time.Second

// A marked process carries the name of its pool and node in its environment, where
// the homes are, and the node's token, unless a version before these started it.
type marked struct {
	pid                      int
	pool, node, homes, token string
}

// ending is by what the rest of a node is found that is to end.
type ending struct {
	home  string // "" where it is gone
	token string // "" where it is not known
	at    *driver
}

// has reports whether a process is one of the node's, of which it has the name. Other
// users, and other pools' tasks, can put that name into their environments too.
func (e ending) has(p marked) bool {
	if e.token != "" {
		return p.token == e.token
	}
	return (p.homes == "" || p.homes == e.at.real) && isOurProcess(p.pid) && !e.at.homes.hasOther(p)
}

// markedProcesses yields every process that belongs to a node, however it
// detached itself, as far as the system lets that be seen: to root also those of
// other users, and those of other providers' nodes.
func markedProcesses() iter.Seq[marked] {
	return func(yield func(marked) bool) {
		for pid := range processes() {
			if p := readMarks(pid); p.node != "" && pid != os.Getpid() && !yield(p) {
				return
			}
		}
	}
}

func readMarks(pid int) marked {
	env := processEnv(pid)
	return marked{pid: pid, pool: variable(env, poolEnv), node: variable(env, nodeEnv), homes: variable(env, homesEnv), token: variable(env, tokenEnv)}
}

// variable returns the value of a variable in NUL-terminated "NAME=value"s.
func variable(env []byte, name string) string {
	for v := range bytes.SplitSeq(env, []byte{0}) {
		if value, ok := bytes.CutPrefix(v, []byte(name+"=")); ok {
			return string(value)
		}
	}
	return ""
}

// endProcesses kills the processes of nodes, by ID, until there are none. Those that
// have become another user's are not waited for: that user may have copied the token.
func endProcesses(ctx context.Context, nodes map[string]ending) error {
	if len(nodes) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, killTimeout)
	defer cancel()
	for {
		var left []int
		for p := range markedProcesses() {
			if node, ends := nodes[p.node]; !ends || !node.has(p) {
				continue
			}
			if isOurProcess(p.pid) {
				left = append(left, p.pid)
			}
			kill(p)
		}
		if len(left) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("processes %v do not end: %w", left, ctx.Err())
		case <-time.After(5 * time.Millisecond): // others' children cannot be waited for
		}
	}
}

// kill ends a process if it is still the one that was found: the handle is
// taken first, so that its number cannot have passed to another.
func kill(p marked) {
	handle, err := os.FindProcess(p.pid)
	if err != nil {
		return
	}
	defer handle.Release()
	if readMarks(p.pid) == p {
		handle.Kill()
	}
}
