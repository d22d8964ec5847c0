package supervisor

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/test/opensshtest"
)

// TestDottedNames has variables whose names have a dot reach a command, a program of a script, and what a gang's prelude starts,
// whatever sh is on the node. No word that starts them has a secret.
func TestDottedNames(t *testing.T) {
	srv := opensshtest.Start(t)
	const show = "env | sort"
	eachShell(t, func(t *testing.T, shell string) {
		n := start(t, connect(t, srv, ""), config(t, shell))
		n.SetBase(map[string]string{"base.env": "1"}, nil)
		n.SetSecrets(map[string]string{"base.secret": "two\nlines", "PLAIN": "3"})
		for name, spec := range map[string]Spec{
			"command":     {Args: []string{"env"}},
			"script":      {Script: "set -eu; " + show},
			"long script": {Script: show + strings.Repeat("\n: and so on", longScript/10)},
			"prelude":     {Args: []string{"sh", "-c", `cd / && exec "$@"`, "sh", "sh", "-c", `a=1; exec "$@"`, "sh", "sh", "-c", show}},
			"terminal":    {Script: show, TTY: true},
		} {
			spec.Env, spec.Secrets = map[string]string{"my.setting": "four"}, map[string]string{"my.secret": "five=5"}
			r := run(t, n, spec)
			all := strings.Split(r.out, "\n")
			for _, want := range []string{"base.env=1", "base.secret=two", "PLAIN=3", "my.setting=four", "my.secret=five=5"} {
				if !slices.Contains(all, want) {
					t.Errorf("%s lacks %s: %v, %v, %q", name, want, r.err, r.errs, all)
				}
			}
			if strings.Contains(r.out, carried) {
				t.Errorf("%s has what carries a secret: %q", name, all)
			}
		}
		if r := run(t, n, Spec{Args: []string{"/no/such"}, Secrets: map[string]string{"a.b": "x"}}); r.Code != 127 || !strings.Contains(r.errs, "/no/such") {
			t.Errorf("%+v", r)
		}
	})
	b := base{secrets: map[string]string{"a.b": "hidden"}}
	exports, others, err := b.variables(nil, map[string]string{"c.d": "hidden"})
	if all := words([]string{"sh", "-c", "x"}, exports, others); err != nil || strings.Contains(strings.Join(all, " "), "hidden") {
		t.Errorf("%v, %q", err, all)
	}
	for _, name := range []string{".a", "a-b.c", "1.a", "a.b=c", ""} {
		if _, _, err := b.variables(nil, map[string]string{name: "x"}); err == nil {
			t.Errorf("a secret %q", name)
		}
	}
}

// TestDottedNamesWithoutTheirPrograms has a node without bash, perl and python3 say what it lacks.
func TestDottedNamesWithoutTheirPrograms(t *testing.T) {
	srv := opensshtest.Start(t)
	n := start(t, connect(t, srv, ""), config(t, "dash"))
	bin := t.TempDir()
	for _, name := range []string{"sh", "env"} {
		if err := os.Symlink(opensshtest.Program(t, name, name), filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	for want, spec := range map[string]Spec{
		"the node has no bash in its place":                     {Script: "true", Env: map[string]string{"a.b": "x", "PATH": bin}},
		"a secret with a dot in its name needs perl or python3": {Args: []string{"true"}, Secrets: map[string]string{"a.b": "x"}, Env: map[string]string{"PATH": bin}},
	} {
		if r := run(t, n, spec); r.Code != 127 || !strings.Contains(r.errs, want) {
			t.Errorf("%q: %+v", want, r)
		}
	}
}
