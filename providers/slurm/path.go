package slurm

import (
	"context"
	"crypto/rand"
	"fmt"
	"path"
	"strings"
)

// checkPath adds the mistakes in Path. It enters shell text as one quoted word.
func (c Config) checkPath(f *faults) {
	if c.Path == "" {
		return
	}
	const hint = `write absolute paths, with colons between them: "/opt/slurm/bin"`
	if hasControl(c.Path) {
		f.add(hint, "Path is %q, which has a control character", c.Path)
		return
	}
	for folder := range strings.SplitSeq(c.Path, ":") {
		if !path.IsAbs(folder) {
			f.add(hint, "Path is %q, in which %q is not absolute", c.Path, folder)
		}
	}
}

// ahead returns shell text that comes before the commands: it puts Path before the PATH of the login.
func (c Config) ahead() string {
	if c.Path == "" {
		return ""
	}
	return "PATH=" + quote(c.Path) + "${PATH:+:$PATH}\nexport PATH\n"
}

// loginVariables are those that a site's start files set so that Slurm's commands are found and run.
var loginVariables = []string{"PATH", "LD_LIBRARY_PATH", "SLURM_CONF"}

// loginText is shell text that has the user's login shell print loginVariables, if it finds sinfo. An SSH server's command has the
// environment of a shell that is no login shell, so that /etc/profile and ~/.bash_profile were not read. csh is a login shell only if it
// has no other option. What files set for interactive shells alone counts in the second place: a terminal is kept from
// such a shell by a session of its own.
func loginText(mark string) string {
	ask := "exec /bin/sh -c 'command -v sinfo >/dev/null && printf \"%s\\n\" \"$0-begin\""
	for _, name := range loginVariables {
		ask += ` "${` + name + `-}"`
	}
	ask += ` "$0-end"' ` + mark
	return "{\ngt_ask=" + quote(ask) + `
gt_shell=${SHELL:-$(getent passwd "$(id -un)" | cut -d: -f7)}
gt_shell=${gt_shell:-/bin/sh}
case ${gt_shell##*/} in
*csh) printf '%s\n' "$gt_ask" | "$gt_shell" -l ;;
*)
	gt_out=$("$gt_shell" -l -c "$gt_ask" </dev/null)
	case $gt_out in
	*` + end(mark) + `*) ;;
	*) gt_out=$(setsid "$gt_shell" -l -i -c "$gt_ask" </dev/null) ;;
	esac
	printf '%s\n' "$gt_out"
	;;
esac
exit 0
}
`
}

// findCommands asks the login shell where Slurm's commands are, and reports whether it knows. They run with its variables from then on.
func (d *controller) findCommands(ctx context.Context) bool {
	ctx, cancel := context.WithTimeoutCause(ctx, d.cfg.CommandTimeout, fmt.Errorf("no answer within %v", d.cfg.CommandTimeout))
	defer cancel()
	mark := "gputrain-" + rand.Text()
	out, _, err := d.shell.Run(ctx, loginText(mark))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(out, begin(mark)+"\n")
	said, _, whole := strings.Cut(rest, "\n"+end(mark))
	values := strings.Split(said, "\n")
	if !whole || len(values) != len(loginVariables) || hasControl(strings.Join(values, "")) {
		return false
	}
	for i, name := range loginVariables {
		if values[i] != "" {
			d.ahead += name + "=" + quote(values[i]) + "\nexport " + name + "\n"
		}
	}
	return true
}
