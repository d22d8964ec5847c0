package supervisor

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// base is what every task's environment has.
type base struct {
	env  map[string]string
	path string   // the login's PATH
	head []string // put before PATH
}

// SetBase decides the environment of every task that is started from now on.
// A task's own Env goes before env. The folders of path are put before PATH.
func (n *Node) SetBase(env map[string]string, path []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.base.env, n.base.head = maps.Clone(env), slices.Clone(path)
	if n.control != nil {
		n.define()
	}
}

// define tells the node what the tasks have in common: a shell defines a function
// that exports it. What no shell can export goes with every task, see run.go.
// n.mu is held.
func (n *Node) define() {
	c := newCall("env", n.base.exports()...)
	if n.control.runner {
		n.control.send(c)
		return
	}
	b := []byte("gt_env() { export GPUTRAIN_POOL GPUTRAIN_NODE")
	b = bytes.TrimSuffix(append(b, strings.TrimPrefix(c.String(), "gt_env")...), []byte("\n"))
	n.control.put(append(b, "\n}\n"...))
}

// exports returns what the tasks have in common, as far as a shell can export it.
func (b *base) exports() (vars []string) {
	for _, name := range slices.Sorted(maps.Keys(b.env)) {
		if name != "PATH" && exportable(name) && !strings.Contains(b.env[name], "\x00") {
			vars = append(vars, name+"="+b.env[name])
		}
	}
	if path := b.search(nil); path != "" {
		vars = append(vars, "PATH="+path)
	}
	return vars
}

// search returns the PATH of a task with the environment env, or "" where the
// login's is right.
func (b *base) search(env map[string]string) string {
	path, set := env["PATH"]
	if !set {
		path, set = b.env["PATH"]
	}
	if !set {
		if len(b.head) == 0 {
			return ""
		}
		path = b.path
	}
	return strings.Join(append(slices.Clone(b.head), path), ":")
}

// variables splits the environment of a task into what the shell exports and
// what only env(1) can set, because the shell uses the name itself or does not
// take it for a name. Secrets may only be of the first kind: env's arguments
// can be seen by others.
func (b *base) variables(env, secrets map[string]string) (exports, others []string, err error) {
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		if !exportable(name) {
			return nil, nil, fmt.Errorf("secret %q: a shell cannot export a variable of this name; choose one of letters, digits and _", name)
		}
	}
	all := map[string]string{}
	for name, value := range b.env {
		if !exportable(name) || strings.Contains(value, "\x00") {
			all[name] = value
		}
	}
	maps.Copy(all, env)
	maps.Copy(all, secrets)
	if _, set := all["PATH"]; set {
		all["PATH"] = b.search(all)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		v := name + "=" + all[name]
		switch {
		case name == "" || strings.Contains(name, "="):
			return nil, nil, fmt.Errorf("environment variable %q: not a name", name)
		case strings.Contains(v, "\x00"):
			return nil, nil, fmt.Errorf("environment variable %q: %w", name, ErrNUL)
		case exportable(name):
			exports = append(exports, v)
		default:
			others = append(others, v)
		}
	}
	return exports, others, nil
}

var (
	namePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	// shellNames mean something to the shells, or belong to node.sh.
	shellNames = regexp.MustCompile(`^(_|gt_.*|BASH.*|COMP_.*|EPOCH.*|U?ID|E?UID|PPID|GROUPS|SHELLOPTS|RANDOM|SRANDOM|SECONDS|LINENO|` +
		`OPT(IND|ARG|ERR)|HISTCMD|DIRSTACK|FUNCNAME|PIPESTATUS|SHLVL|POSIXLY_CORRECT|IFS)$`)
)

func exportable(name string) bool {
	return namePattern.MatchString(name) && !shellNames.MatchString(name)
}
