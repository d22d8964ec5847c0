package opensshtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A Login is a login shell with a start file.
type Login struct {
	Name           string
	Shell, Package string
	File, Text     string // the start file, below the home folder
}

// What start files print: a line, three of which the last does not end, and an error.
const (
	posixGreeting = "echo Welcome to the lab!\nprintf '\\none\\ntwo'\necho not a terminal >&2\n"
	cshGreeting   = "echo Welcome to the lab\necho one; echo -n two\nsh -c 'echo not a terminal >&2'\n"
)

// Logins print, are strict, or are no POSIX shells, as people have them. A program sees no difference to the last, which is quiet.
var Logins = []Login{
	{"bash", "bash", "bash", ".bashrc", posixGreeting + "shopt -s expand_aliases\nalias cd='echo cd' ls='ls -l' cat=false sh=false\n"},
	{"bash, strict", "bash", "bash", ".bashrc", posixGreeting + "set -eufC -o pipefail\ntrap 'echo trapped' EXIT DEBUG\n"},
	{"bash, traced", "bash", "bash", ".bashrc", "set -xv\n"},
	{"bash, exported", "bash", "bash", ".bashrc", "set -eufC\nexport SHELLOPTS BASH_ENV=~/.bashrc ENV=~/.bashrc IFS=:\ncd() { echo cd; }\nexport -f cd\necho exported\n"},
	{"zsh", "zsh", "zsh", ".zshenv", posixGreeting + "setopt rcquotes errexit nounset noclobber\nalias cd='echo cd' sh=false cat=false\n"},
	{"tcsh", "tcsh", "tcsh", ".cshrc", cshGreeting + "set noclobber echo verbose\nalias cd 'echo cd'\nalias cat false\nalias sh false\n"},
	{"csh", "bsd-csh", "csh", ".cshrc", cshGreeting + "set noclobber\nalias cd 'echo cd'\nalias cat false\n"},
	{"fish", "fish", "fish", ".config/fish/config.fish", "echo Welcome to the lab!\nprintf 'one\\ntwo'\necho not a terminal >&2\nfunction cd; echo cd; end\nalias cat=false\nalias sh=false\n"},
	{"dash", "dash", "dash", "", ""},
}

// Write writes the start file into a home folder, and what the shell itself writes there. Without the shell the test skips, or fails, as in Start.
func (l Login) Write(t testing.TB, home string) {
	t.Helper()
	must(t, os.MkdirAll(home, 0o700))
	if l.File != "" {
		name := filepath.Join(home, l.File)
		must(t, os.MkdirAll(filepath.Dir(name), 0o700))
		must(t, os.WriteFile(name, []byte(l.Text), 0o600))
	}
	first := exec.Command(Program(t, l.Shell, l.Package), "-c", "true")
	first.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
	must(t, first.Run())
}

// LoginShell makes a login the user's, and writes its start file. No account of the machine is changed: the account's own shell
// replaces itself by the login's, and has read a start file of its own kind. The shell runs the SFTP server too.
func LoginShell(t testing.TB, l Login) Option {
	t.Helper()
	shell := Program(t, l.Shell, l.Package)
	var server string
	for _, name := range []string{"/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/libexec/sftp-server", "/usr/lib/ssh/sftp-server"} {
		if _, err := os.Stat(name); err == nil {
			server = name
		}
	}
	if server == "" {
		missing(t, "sftp-server", "openssh-sftp-server")
	}
	return func(o *options) {
		o.login, o.sftp = &l, server
		// bash reads .bashrc if it is the first shell below a server.
		o.lines = append(o.lines, "ForceCommand exec /usr/bin/env -u SHLVL SHELL="+shell+" "+shell+` -c "$SSH_ORIGINAL_COMMAND"`)
	}
}
