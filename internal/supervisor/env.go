package supervisor

import (
	"bytes"
	"fmt"
	"maps"
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

// exportable reports whether a shell exports a variable of this name as it is: a name
// of letters, digits and _ that means nothing to the shells, and is not node.sh's. It is
// asked for every variable of every task.
func exportable(name string) bool {
	for i := range len(name) {
		c := name[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != "" && !isShellName(name)
}

// isShellName reports whether a name means something to bash, dash or busybox, or is
// node.sh's.
func isShellName(name string) bool {
	switch name {
	case "_", "ID", "UID", "EUID", "PPID", "GROUPS", "SHELLOPTS", "RANDOM", "SRANDOM", "SECONDS", "LINENO",
		"OPTIND", "OPTARG", "OPTERR", "HISTCMD", "DIRSTACK", "FUNCNAME", "PIPESTATUS", "SHLVL", "POSIXLY_CORRECT", "IFS":
		return true
	}
	return strings.HasPrefix(name, "gt_") || strings.HasPrefix(name, "BASH") || strings.HasPrefix(name, "COMP_") || strings.HasPrefix(name, "EPOCH")
}
