package simnode

import (
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/sshd"
)

// training answers the shell text by which internal/training starts and ends the processes of a training, and
// internal/launcher and internal/preflight look at a node. It reports false for any other command.
func (n *Node) training(p sshd.Program) bool {
	switch {
	case strings.HasPrefix(p.Command, "cat /proc/net/tcp "): // no port is in use
	case strings.HasPrefix(p.Command, ": >"):
		words, err := split(p.Command)
		if err != nil {
			return false
		}
		for _, word := range words {
			n.eachTask(func(t *task) { t.release(strings.TrimPrefix(word, ">")) })
		}
	case strings.HasPrefix(p.Command, "mark="):
		line, _, _ := strings.Cut(p.Command, "\n")
		words, err := split(line)
		if err != nil || len(words) != 1 {
			return false
		}
		mark := strings.TrimPrefix(words[0], "mark=")
		n.eachTask(func(t *task) {
			if slices.ContainsFunc(t.env, func(v string) bool { return strings.Contains(v, mark) }) {
				t.cancel()
				t.finish(-9)
			}
		})
	case strings.HasPrefix(p.Command, "of="):
		line, _, _ := strings.Cut(p.Command, "\n")
		words, err := split(line)
		if err != nil || len(words) != 1 {
			return false
		}
		var worlds strings.Builder
		n.eachTask(func(t *task) { t.tellWorld(&worlds, strings.TrimPrefix(words[0], "of=")) })
		_, _ = io.WriteString(p.Stdout, worlds.String())
	default:
		return false
	}
	return true
}

// tellWorld prints the size of the world of a task that has a variable, under a number that no other task has.
func (t *task) tellWorld(w io.Writer, of string) {
	if !slices.ContainsFunc(t.env, func(v string) bool { return strings.Contains(v, of) }) {
		return
	}
	for _, v := range t.env {
		if size, ok := strings.CutPrefix(v, "WORLD_SIZE="); ok {
			h := fnv.New32a()
			_, _ = io.WriteString(h, t.id)
			fmt.Fprintln(w, h.Sum32(), size)
		}
	}
}

// eachTask calls f for every task that runs, with its place's mu held.
func (n *Node) eachTask(f func(*task)) {
	n.mu.Lock()
	var all []*place
	for _, p := range n.places {
		all = append(all, p)
	}
	n.mu.Unlock()
	for _, p := range all {
		p.mu.Lock()
		for _, t := range p.live {
			f(t)
		}
		p.mu.Unlock()
	}
}

// Running returns the IDs of the tasks that run, in order.
func (n *Node) Running() (ids []string) {
	n.eachTask(func(t *task) { ids = append(ids, t.id) })
	slices.Sort(ids)
	return ids
}

// releaseFile is the file in the scratch directory of a process of a training for which its shell waits.
const releaseFile = "/.gputrain-release"

// unwrap removes the shells from a command that only execute a text before it. It reports whether one of them waits for
// the command's release.
func unwrap(args []string) (command []string, waits bool) {
	for len(args) > 4 && args[0] == "sh" && args[1] == "-c" && strings.HasSuffix(args[2], `exec "$@"`) {
		waits = waits || strings.Contains(args[2], releaseFile)
		args = args[4:]
	}
	return args, waits
}

// release lets a task go on that waits for a file.
func (t *task) release(file string) {
	if t.released != nil && file == t.p.root+"/s/"+t.scratch+releaseFile {
		t.releasedOnce.Do(func() { close(t.released) })
	}
}

// sh executes a script of internal/preflight, which is a shell's stdin. It reports false for any other one.
func (n *Node) sh(in *input, p sshd.Program) bool {
	switch {
	case in.begins("# Prints facts about a node"):
		in.all()
		now := time.Now()
		fmt.Fprintf(p.Stdout, "@clock\n%d.%09d\n@ip\n2: eth0    inet %s/8 scope global eth0\n@nvidia\n", now.Unix(), now.Nanosecond(), n.cfg.Addr)
		for _, g := range n.cfg.GPUs {
			fmt.Fprintf(p.Stdout, "550.54, %s\n", g.Name)
		}
		fmt.Fprintln(p.Stdout, "@end")
	case in.begins("python="):
		n.peer(in, p)
	default:
		return false
	}
	return true
}

// peer listens on ports, or dials those of other nodes. All of them are open.
func (n *Node) peer(in *input, p sshd.Program) {
	var set []string // -- MODE FAMILY LIMIT TOKEN ARGUMENT...
	for {
		words, err := in.line()
		switch {
		case err != nil:
			return
		case len(words) > 5 && words[0] == "set":
			set = words[1:]
			continue
		case len(words) != 1 || words[0] != "exit":
			continue
		}
		break
	}
	if len(set) < 5 {
		return
	}
	args := set[5:]
	if set[1] == "dial" {
		for ; len(args) >= 4; args = args[4:] {
			fmt.Fprintln(p.Stdout, "ok", args[0])
		}
		fmt.Fprintln(p.Stdout, "end")
		return
	}
	for _, port := range args {
		fmt.Fprintln(p.Stdout, "port", port, port)
	}
	fmt.Fprintln(p.Stdout, "ready")
	in.all()
}

// begins reports whether the input begins with a text.
func (in *input) begins(text string) bool {
	for len(in.b) < len(text) {
		if in.more() != nil {
			return false
		}
	}
	return strings.HasPrefix(string(in.b), text)
}

// all reads the input to its end.
func (in *input) all() { io.Copy(io.Discard, in.r) }
