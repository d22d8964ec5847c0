//go:build unix

package secretref

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestCommand(t *testing.T) {
	t.Setenv("SECRETREF_TOKEN", "of-the-env")
	t.Chdir(t.TempDir())
	for command, want := range map[string]string{
		"echo hunter2":                         "hunter2",
		"printf hunter2":                       "hunter2",
		"printf 'one\\ntwo\\n\\n'":             "one\ntwo\n",
		"echo a warning >&2; echo hunter2":     "hunter2",
		`echo "$SECRETREF_TOKEN" | tr a-z A-Z`: "OF-THE-ENV",
		"cat; echo its stdin is empty":         "its stdin is empty",
		"{ exec >/dev/null 2>&1; echo >up; exec sleep 600; } & until [ -e up ]; do sleep 0.01; done; echo begun": "begun",
	} {
		if got, err := Resolve(t.Context(), "cmd://"+command); got != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", command, got, err, want)
		}
	}
}

// An error contains none of a command's output that may be secret, and only the first word of its
// command line.
func TestCommandErrors(t *testing.T) {
	const secret, argument = "s3cr3t-0f-st0re", "passw0rd-given"
	for _, tt := range []struct{ command, want string }{
		{"no-such-command " + argument, "no-such-command"},
		{"exit 3", `"cmd://exit ...": exit status 3`},
		{"true", `"cmd://true": it is empty`},
		{"TOKEN=" + argument + " false", `"cmd://...": exit status 1`},
		{"echo " + secret + "; exit 1", "exit status 1"},
		{"echo " + secret + "; echo 'not logged in, but have " + secret + "' >&2; exit 1", "exit status 1: not logged in"},
		{"printf 'key:\\n" + secret + "\\n'; echo 'the second line is <" + secret + ">' >&2; exit 1", "the second line is <[redacted]>"},
		{"tool() { echo \"tool: no item $1\" >&2; exit 4; }; tool " + argument, "exit status 4: tool: no item [redacted]"},
		{"echo (" + argument, "yntax error"},
		{"echo '" + argument, "nterminated"},
		{"kill -9 $$", "signal: killed"},
		{"printf 'a\\000b'", "NUL byte"},
		{"yes " + secret, "it is larger than 1 MiB"},
		{"trap '' PIPE; yes " + secret + "; sleep 600", "it is larger than 1 MiB"},
		{"echo " + secret + "; sleep 600 & exit 0", "holds its output open"},
		{"echo " + secret + "; yes " + secret + " | head -n 5000 >&2; exit 7", "exit status 7"},
	} {
		got, err := Resolve(t.Context(), "cmd://"+tt.command)
		if err == nil || got != "" || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %.40q, %v; want an error with %q", tt.command, got, err, tt.want)
			continue
		}
		for _, s := range []string{secret, argument} {
			if strings.Contains(err.Error(), s) || strings.Contains(err.Error(), s[:len(s)-1]) {
				t.Errorf("%s: the error contains the secret: %v", tt.command, err)
			}
		}
		if len(err.Error()) > 2*maxComplaint {
			t.Errorf("%s: the error has %d bytes", tt.command, len(err.Error()))
		}
	}
}

// A line that was cut may contain half of a secret, which redaction would not recognize.
func TestAComplaintThatWasCut(t *testing.T) {
	const secret = "s3cr3t-0f-st0re"
	for _, stderr := range []string{"it was asked\n" + secret[:7], secret[:7]} {
		got := complaint(&bounded{text: []byte(stderr), cut: true}, secret, "tool")
		if strings.Contains(got, secret[:7]) {
			t.Errorf("%q is shown as %q", stderr, got)
		}
	}
}

func TestCommandThatHangs(t *testing.T) {
	if got, err := fromCommand(t.Context(), "echo hunter2; exec sleep 600", time.Millisecond); got != "" || err == nil || err.Error() != "the command has not ended in 1ms" {
		t.Errorf("%q, %v", got, err)
	}
}

// When ctx ends, a command ends with all processes that it has started: only then does the pipe
// that they all hold end.
func TestCommandEndsWithItsContext(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{
		"trap '' TERM INT; exec 3>" + fifo + "; echo begun >&3; sleep 600 & sleep 600",
		"exec 3>" + fifo + "; echo begun >&3; sh -c 'sleep 600 & sleep 600' | cat",
	} {
		over := errors.New("the call was given up")
		ctx, cancel := context.WithCancelCause(t.Context())
		result := make(chan error, 1)
		go func() {
			_, err := Resolve(ctx, "cmd://"+command)
			result <- err
		}()
		f, err := os.Open(fifo)
		if err != nil {
			t.Fatal(err)
		}
		begun := make([]byte, len("begun\n"))
		if _, err := io.ReadFull(f, begun); err != nil {
			t.Fatal(err)
		}
		cancel(over)
		if err := <-result; !errors.Is(err, over) {
			t.Errorf("%s: %v", command, err)
		}
		if rest, err := io.ReadAll(f); err != nil || len(rest) > 0 {
			t.Errorf("%s: then came %q, %v", command, rest, err)
		}
		f.Close()
	}
}

// A named pipe without a writer would block a program forever.
func TestFileThatIsNone(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{fifo, "/dev/null"} {
		if got, err := Resolve(t.Context(), "file://"+path); got != "" || err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
}

func TestFileThatOthersMayRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mounted")
	if err := os.WriteFile(path, []byte("hunter2\n"), 0o444); err != nil {
		t.Fatal(err)
	}
	if got, err := Resolve(t.Context(), "file://"+path); got != "hunter2" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
