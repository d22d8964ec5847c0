package supervisor

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/test/opensshtest"
)

// A store whose connection is cut, which reads the end of its stdin too early, leaves the file of another try as it is.
func TestStoreThatIsCut(t *testing.T) {
	eachShell(t, func(t *testing.T, shell string) {
		if shell == "perl" {
			shell = "sh"
		}
		folder := t.TempDir() + "/a root's "
		store := func(try int, content string, size int64) error {
			args := append(strings.Fields(shell), "-c", storeScript(folder, "x.in", try, 3, size))
			cmd := exec.Command(args[0], args[1:]...)
			cmd.Stdin = strings.NewReader(content)
			return cmd.Run()
		}
		if err := store(1, "complete", 8); err != nil {
			t.Fatal(err)
		}
		for _, arrived := range []string{"", "compl", "complete and more"} {
			var exit *exec.ExitError
			if err := store(0, arrived, 8); !errors.As(err, &exit) || exit.ExitCode() != 1 {
				t.Errorf("%q: %v", arrived, err)
			}
		}
		if text, err := os.ReadFile(folder + "x.in"); err != nil || string(text) != "complete" {
			t.Errorf("%q, %v", text, err)
		}
		if _, err := os.Stat(folder + "x.in.0"); !os.IsNotExist(err) {
			t.Errorf("a part is left: %v", err)
		}
		if err := store(2, "", 0); err != nil {
			t.Error(err)
		}
		if text, err := os.ReadFile(folder + "x.in"); err != nil || len(text) > 0 {
			t.Errorf("%q, %v", text, err)
		}
		if err := os.WriteFile(folder+"owner", []byte("4 ;\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		var exit *exec.ExitError
		if err := store(3, "x", 1); !errors.As(err, &exit) || exit.ExitCode() != fencedOff {
			t.Errorf("a store of a deposed client: %v", err)
		}
	})
}

// A killer is a Client whose first commands are killed.
type killer struct {
	Client
	kills int
}

var errKilled = &ssh.ExitError{Code: -1, Signal: "KILL"}

func (k *killer) Exec(ctx context.Context, command string, stdin io.Reader, stdout, stderr io.Writer) error {
	if k.kills--; k.kills >= 0 {
		return errKilled
	}
	return k.Client.Exec(ctx, command, stdin, stdout, stderr)
}

func (k *killer) ExecMoving(ctx context.Context, command string, stdin io.Reader, stdout, stderr io.Writer) error {
	if k.kills--; k.kills >= 0 {
		io.CopyN(io.Discard, stdin, 3)
		return errKilled
	}
	return k.Client.ExecMoving(ctx, command, stdin, stdout, stderr)
}

// A store that a signal ends is repeated, and given up if that happens each time.
func TestStoreThatIsKilled(t *testing.T) {
	root, client := t.TempDir(), connect(t, opensshtest.Start(t), "")
	if err := os.Mkdir(root+"/t", 0o755); err != nil {
		t.Fatal(err)
	}
	store := func(kills int) error {
		f := files{client: &killer{client, kills}, facts: &Facts{Root: root}, life: t.Context()}
		return f.store(t.Context(), "x.in", strings.NewReader("complete"))
	}
	if err := store(mostInterruptions + 1); !errors.Is(err, ErrNotStarted) || !strings.Contains(err.Error(), "ended by signal KILL") {
		t.Errorf("a store that is always killed: %v", err)
	}
	if err := store(mostInterruptions); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(root + "/t/x.in"); err != nil || string(text) != "complete" {
		t.Errorf("%q, %v", text, err)
	}
}

// The end of a node is repeated if a signal ends it, and can be called again if that happens each time.
func TestCloseThatIsKilled(t *testing.T) {
	n := start(t, connect(t, opensshtest.Start(t), ""), config(t, "dash"))
	n.client = &killer{n.client, 2*mostInterruptions + 1}
	if err := n.Close(t.Context(), true); err == nil || !strings.Contains(err.Error(), "ended by signal KILL") {
		t.Errorf("an end that is always killed: %v", err)
	}
	if err := n.Close(t.Context(), true); err != nil {
		t.Error(err)
	}
}

// promise is a reader that claims to have more bytes than it has, as a file of sysfs does.
type promise struct {
	*strings.Reader
	more int64
}

func (p promise) Seek(offset int64, whence int) (int64, error) {
	at, err := p.Reader.Seek(offset, whence)
	if whence == io.SeekEnd {
		at += p.more
	}
	return at, err
}

// Stdin may be any reader: one that cannot seek, one that is not at its beginning, one with a size that is not so.
func TestStdinOfEveryKind(t *testing.T) {
	srv := opensshtest.Start(t)
	n := start(t, connect(t, srv, ""), config(t, "dash"))
	further := strings.NewReader("skipped, kept")
	if _, err := further.Seek(9, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	proc, err := os.Open("/proc/self/stat") // Stat reports its size as 0
	if err != nil {
		t.Fatal(err)
	}
	defer proc.Close()
	for _, tt := range []struct {
		name  string
		stdin io.Reader
		want  string
	}{
		{"seeks", strings.NewReader("text"), "text"},
		{"does not seek", iotest.OneByteReader(strings.NewReader("text")), "text"},
		{"empty", strings.NewReader(""), ""},
		{"is not at its beginning", further, "kept"},
		{"is at its end", further, ""},
		{"claims too much", promise{strings.NewReader("text"), 4092}, "text"},
		{"claims what it does not have", promise{strings.NewReader(""), 4096}, ""},
	} {
		if r := run(t, n, Spec{Script: "cat", Stdin: tt.stdin}); r.err != nil || r.Code != 0 || r.out != tt.want {
			t.Errorf("%s: %+v", tt.name, r)
		}
	}
	if r := run(t, n, Spec{Script: "cat", Stdin: proc}); r.err != nil || !strings.Contains(r.out, "(supervisor.test)") {
		t.Errorf("a file of procfs: %+v", r)
	}
}
