package ssh

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/loginshell"
	"github.com/gputrain/gputrain/internal/test/opensshtest"
)

// TestLoginShells runs commands, sessions and SFTP for each kind of login: all are as for a login that prints nothing.
func TestLoginShells(t *testing.T) {
	for _, l := range opensshtest.Logins {
		t.Run(l.Name, func(t *testing.T) {
			s := opensshtest.Start(t, opensshtest.LoginShell(t, l))
			c := connect(t, configFor(t, s, s.Addr))
			var out, stderr strings.Builder
			text := "cd /; pwd; printf '%s\\n' 'a!b\\c' \"$none\" \"\u00e9\"; cat; echo said >&2; exit 3"
			err := c.Exec(inTime(t), text, strings.NewReader("input\n"), &out, &stderr)
			if exit, ok := errors.AsType[*ExitError](err); !ok || exit.Code != 3 || out.String() != "/\na!b\\c\n\n\u00e9\ninput\n" || stderr.String() != "said\n" {
				t.Errorf("%v; stdout %q; stderr %q", err, out.String(), stderr.String())
			}
			session, err := c.Open(inTime(t), "exec sh")
			if err != nil {
				t.Fatal(err)
			}
			io.WriteString(session, "echo \"${-#c}\" >&2; echo hello; exit 0\n")
			session.CloseWrite()
			got, err := io.ReadAll(session)
			said, _ := io.ReadAll(session.Stderr)
			if w := session.Wait(); string(got) != "hello\n" || err != nil || w != nil || strings.ContainsAny(string(said), "eufC") {
				t.Errorf("a session: %q, %q, %v, %v", got, said, err, w)
			}
			files, err := c.SFTP(inTime(t), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer files.Close()
			if _, err := files.Stat("/"); err != nil {
				t.Error(err)
			}
			terminal, err := c.OpenTerminal(inTime(t), "echo on it", Terminal{})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(terminal); string(got) != "on it\r\n" || err != nil {
				t.Errorf("a terminal: %q, %v", got, err)
			}
			terminal.Close()
		})
	}
}

// TestLoginThatRunsNothing is a login that ends before it runs the command.
func TestLoginThatRunsNothing(t *testing.T) {
	for _, tt := range []struct{ rc, says string }{
		{"echo This account is not available.\nexit 1\n", "ends with status 1: This account is not available."},
		{"exit 0\n", "ends with status 0"},
		{"yes welcome\n", loginshell.ErrNoise.Error()},
	} {
		s := opensshtest.Start(t, opensshtest.LoginShell(t, opensshtest.Login{Shell: "bash", Package: "bash", File: ".bashrc", Text: tt.rc}))
		c := connect(t, configFor(t, s, s.Addr))
		var out strings.Builder
		err := c.Exec(inTime(t), "echo ran", nil, &out, nil)
		if _, exited := errors.AsType[*ExitError](err); !errors.Is(err, ErrNoCommand) || exited || !strings.Contains(err.Error(), tt.says) || out.Len() > 0 {
			t.Errorf("%q: %v, %q", tt.rc, err, out.String())
		}
	}
}
