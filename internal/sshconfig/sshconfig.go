// Package sshconfig reads how the user logs in to a host, from files in the form of ssh_config(5). It asks ssh(1), which knows all of
// Host, Match, Include and the defaults: ssh -G connects to nothing.
package sshconfig

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/bounded"
	"github.com/gputrain/gputrain/internal/childenv"
)

// A Question is a host as a user names it. User and Port are empty if the user names none.
type Question struct {
	Host, User, Port string
}

// An Answer is how ssh(1) would log in to it.
type Answer struct {
	HostName, User, Port string
	// IdentityFiles are the key files that the file names, some of which may not exist. Nil are ssh's own.
	IdentityFiles []string
	// IdentitiesOnly means that the agent offers no other keys, and NoAgent that no agent is asked.
	IdentitiesOnly, NoAgent bool
	// KnownHosts are the files with host keys that the file names. Nil are ssh's own.
	KnownHosts []string
	// Jump are the hosts on the way, as [user@]host[:port].
	Jump []string
	// ProxyCommand is a command that carries the connection.
	ProxyCommand string
	// Unused are settings that matter for a login, and that only ssh(1) follows.
	Unused []string
}

// ErrNoSSH means that there is no ssh(1) to ask.
var ErrNoSSH = errors.New("ssh is not installed")

const (
	// patience bounds one question. A Match exec runs a command of the user's.
	patience = 20 * time.Second
	// mostSaid bounds what is kept of an answer.
	mostSaid = 256 << 10
)

// Ask asks for one host, by a file alone. The file and all that it includes are the user's own.
func Ask(ctx context.Context, file string, q Question) (Answer, error) {
	program, err := exec.LookPath("ssh")
	if err != nil {
		return Answer{}, ErrNoSSH
	}
	if strings.HasPrefix(q.Host, "-") || q.Host == "" {
		return Answer{}, fmt.Errorf("%q is no name of a host", q.Host)
	}
	args := []string{"-G", "-T", "-F", file}
	if q.User != "" {
		args = append(args, "-l", q.User)
	}
	if q.Port != "" {
		args = append(args, "-p", q.Port)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c := exec.CommandContext(ctx, program, append(args, "--", q.Host)...)
	c.Env = childenv.Of(childenv.System, childenv.Network)
	c.WaitDelay = time.Second
	out, complaint := &bounded.Buffer{Most: mostSaid}, &bounded.Buffer{Most: 4 << 10, First: true}
	c.Stdout, c.Stderr = out, complaint
	if err := c.Run(); err != nil {
		err = cmp.Or(ctx.Err(), out.Err(), err)
		first, _, _ := strings.Cut(strings.TrimSpace(complaint.String()), "\n")
		return Answer{}, fmt.Errorf("ssh -G -F %s %s: %w: %s", file, q.Host, err, strings.TrimSpace(first))
	}
	return parse(out.String(), q), nil
}

// The files that ssh(1) has without any setting end so.
var (
	ownKeys  = []string{"/.ssh/id_rsa", "/.ssh/id_ed25519"}
	ownHosts = []string{"/.ssh/known_hosts", "/.ssh/known_hosts2"}
)

// parse reads what ssh -G prints: a setting in small letters, and its value, in each line.
func parse(said string, q Question) (a Answer) {
	alias := ""
	for line := range strings.Lines(said) {
		setting, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if value == "" || value == "none" && setting != "identityagent" {
			continue
		}
		switch setting {
		case "hostname":
			a.HostName = value
		case "user":
			a.User = value
		case "port":
			a.Port = value
		case "identityfile":
			a.IdentityFiles = append(a.IdentityFiles, value)
		case "identitiesonly":
			a.IdentitiesOnly = value == "yes"
		case "identityagent":
			a.NoAgent = value == "none"
			if !a.NoAgent && value != "SSH_AUTH_SOCK" {
				a.Unused = append(a.Unused, "IdentityAgent "+value)
			}
		case "userknownhostsfile":
			a.KnownHosts = strings.Fields(value)
		case "proxyjump":
			a.Jump = strings.Split(value, ",")
		case "proxycommand":
			a.ProxyCommand = value
		case "hostkeyalias":
			alias = value
		case "certificatefile", "pkcs11provider":
			a.Unused = append(a.Unused, setting+" "+value)
		}
	}
	if alias != "" && !strings.EqualFold(alias, a.HostName) {
		a.Unused = append(a.Unused, "HostKeyAlias "+alias)
	}
	if endsLike(a.IdentityFiles, ownKeys) {
		a.IdentityFiles = nil
	}
	if len(a.KnownHosts) == len(ownHosts) && endsLike(a.KnownHosts, ownHosts) {
		a.KnownHosts = nil
	}
	var files []string
	for _, f := range a.IdentityFiles {
		if path, ok := a.expand(f, q); ok {
			files = append(files, path)
		} else {
			a.Unused = append(a.Unused, "IdentityFile "+f)
		}
	}
	a.IdentityFiles = files
	return a
}

// endsLike reports whether for each of ends there is a path with that end.
func endsLike(paths, ends []string) bool {
	for _, end := range ends {
		if !slices.ContainsFunc(paths, func(p string) bool { return strings.HasSuffix(filepath.ToSlash(p), end) }) {
			return false
		}
	}
	return true
}

// token is what stands for something else in a path: see TOKENS in ssh_config(5).
var token = regexp.MustCompile(`%.|\$\{\w+\}`)

// expand returns a path with its tokens replaced. It reports false if one is unknown.
func (a *Answer) expand(path string, q Question) (string, bool) {
	home, err := os.UserHomeDir()
	known := err == nil
	path = token.ReplaceAllStringFunc(path, func(t string) string {
		switch t {
		case "%%":
			return "%"
		case "%d":
			return home
		case "%h":
			return a.HostName
		case "%n":
			return q.Host
		case "%p":
			return a.Port
		case "%r":
			return a.User
		}
		if name, ok := strings.CutPrefix(t, "${"); ok {
			value, set := os.LookupEnv(strings.TrimSuffix(name, "}"))
			known = known && set
			return value
		}
		known = false
		return t
	})
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		path = filepath.Join(home, rest)
	}
	return path, known
}

// SplitJump returns the parts of a host of Answer.Jump, which may be an ssh:// URI.
func SplitJump(jump string) Question {
	jump = strings.TrimSuffix(strings.TrimPrefix(jump, "ssh://"), "/")
	var q Question
	if i := strings.LastIndexByte(jump, '@'); i >= 0 {
		q.User, jump = jump[:i], jump[i+1:]
	}
	q.Host = jump
	if host, port, err := net.SplitHostPort(jump); err == nil {
		if _, err := strconv.ParseUint(port, 10, 16); err == nil {
			q.Host, q.Port = host, port
		}
	}
	q.Host = strings.Trim(q.Host, "[]")
	return q
}
