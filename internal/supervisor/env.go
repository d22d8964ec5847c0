package supervisor

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// base is the part of the environment that every task has.
type base struct {
	env     map[string]string
	secrets map[string]string
	path    string   // the login's PATH
	head    []string // folders before PATH
}

// SetBase sets the environment of every task that is started from now on. A task's own Env overrides env. The folders
// of path precede PATH.
func (n *Node) SetBase(env map[string]string, path []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.base.env, n.base.head = maps.Clone(env), slices.Clone(path)
	if n.control != nil {
		n.base.define(n.control)
	}
}

// SetSecrets sets the secrets of every task that is started from now on. They travel with each start, as Spec.Secrets
// do, and are in no other process of the node. A task's own Env and Secrets override them.
func (n *Node) SetSecrets(secrets map[string]string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.base.secrets = maps.Clone(secrets)
}

// define sends the common environment to a session: a shell defines a function that exports it. Variables that a shell
// cannot export are sent with every task, see run.go.
func (b *base) define(k *control) {
	c := newCall("env", b.exports()...)
	if k.runner {
		k.send(c)
		return
	}
	text := []byte("gt_env() { export GPUTRAIN_POOL GPUTRAIN_NODE")
	text = bytes.TrimSuffix(append(text, strings.TrimPrefix(c.String(), "gt_env")...), []byte("\n"))
	k.put(append(text, "\n}\n"...))
}

// exports returns the common variables that a shell can export.
func (b *base) exports() (vars []string) {
	for _, name := range slices.Sorted(maps.Keys(b.env)) {
		if name != "PATH" && Exportable(name) && !strings.Contains(b.env[name], "\x00") {
			vars = append(vars, name+"="+b.env[name])
		}
	}
	if path := b.search(nil); path != "" {
		vars = append(vars, "PATH="+path)
	}
	return vars
}

// search returns the PATH of a task with the environment env, or "" if the login's PATH is right.
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

// withDefault returns the environment env of a task, in which a variable has this value if nothing else sets it.
func (b *base) withDefault(env, secrets map[string]string, name, value string) map[string]string {
	for _, vars := range []map[string]string{b.env, b.secrets, env, secrets} {
		if _, set := vars[name]; set {
			return env
		}
	}
	env = maps.Clone(env)
	if env == nil {
		env = map[string]string{}
	}
	env[name] = value
	return env
}

// size returns the columns and lines of the terminal of a task with the environment env.
func (b *base) size(env map[string]string) string {
	number := func(name string, otherwise int) int {
		for _, vars := range []map[string]string{env, b.env} {
			if text, set := vars[name]; set {
				if n, err := strconv.Atoi(text); err == nil && n > 0 && n <= math.MaxUint16 {
					return n
				}
				break
			}
		}
		return otherwise
	}
	return fmt.Sprintf("%d %d", number("COLUMNS", 80), number("LINES", 24))
}

// variables splits the environment of a task into variables that the shell exports and those that only env(1) can set,
// because the shell uses the name itself or does not accept it as a name. Secrets must be of the first kind, as other
// users can see env's arguments: one with a dot in its name is the value of a variable that is exported, see words.go.
func (b *base) variables(env, secrets map[string]string) (exports, others []string, err error) {
	for _, some := range []map[string]string{b.secrets, secrets} {
		for _, name := range slices.Sorted(maps.Keys(some)) {
			if !Passable(name) {
				return nil, nil, fmt.Errorf("secret %q: a shell cannot export a variable of this name; choose one of letters, digits and _", name)
			}
		}
	}
	isSecret := func(name string) bool {
		_, pools := b.secrets[name]
		_, own := secrets[name]
		return pools || own
	}
	all := map[string]string{}
	for name, value := range b.env {
		if !Exportable(name) || strings.Contains(value, "\x00") {
			all[name] = value
		}
	}
	maps.Copy(all, b.secrets)
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
		case Exportable(name):
			exports = append(exports, v)
		case isSecret(name):
			exports = append(exports, carried+strconv.Itoa(len(exports))+"="+v)
		default:
			others = append(others, v)
		}
	}
	return exports, others, nil
}

// Passable reports whether a task can have a secret of this name: see words.
func Passable(name string) bool { return Exportable(name) || isDotted(name) }

// isDotted reports whether a name is one of letters, digits, _ and dots, which no shell exports.
func isDotted(name string) bool {
	plain := strings.ReplaceAll(name, ".", "_")
	return plain != name && name[0] != '.' && Exportable("A"+plain) && (name[0] < '0' || name[0] > '9')
}

// Exportable reports whether a shell exports a variable of this name unchanged: a name of letters, digits and _ that
// means nothing to the shells, and is not node.sh's. It is called for every variable of every task.
func Exportable(name string) bool {
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
