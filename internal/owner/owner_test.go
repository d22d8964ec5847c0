package owner

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

// TestMain also serves as the program that tests start: it prints its own owner, and ends when its
// stdin does.
func TestMain(m *testing.M) {
	if os.Getenv("GPUTRAIN_TEST_OWNER") != "" {
		fmt.Println(Self())
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// start starts another program, and returns a Closer that ends it, and the process that it reports.
func start(t *testing.T) (end io.Closer, cmd *exec.Cmd, who Owner) {
	t.Helper()
	switch runtime.GOOS {
	case "linux", "darwin", "windows":
	default:
		t.Skip("this system does not report processes")
	}
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "GPUTRAIN_TEST_OWNER=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	who, err = Parse(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	return in, cmd, who
}

func TestAnotherProcess(t *testing.T) {
	end, cmd, who := start(t)
	if who.PID != cmd.Process.Pid || !who.SameHost() || who == Self() {
		t.Errorf("process %d reports %v as its owner; this process is %v", cmd.Process.Pid, who, Self())
	}
	if alive, known := who.Alive(); !alive || !known {
		t.Errorf("a running process: alive %v, known %v", alive, known)
	}
	later := who
	later.Start += "1"
	if alive, known := later.Alive(); alive || !known {
		t.Errorf("another process with the same ID: alive %v, known %v", alive, known)
	}
	untold := who
	untold.Start = "0"
	if alive, known := untold.Alive(); alive || known {
		t.Errorf("a process with an unknown start: alive %v, known %v", alive, known)
	}
	end.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if alive, known := who.Alive(); alive || !known {
		t.Errorf("a process that has ended: alive %v, known %v", alive, known)
	}
}

func TestSelf(t *testing.T) {
	me := Self()
	if me.PID != os.Getpid() || Self() != me {
		t.Errorf("Self is %v, then %v", me, Self())
	}
	if got, err := Parse(me.String()); err != nil || got != me {
		t.Errorf("Parse(%v) returns %v, %v", me, got, err)
	}
	elsewhere := me
	elsewhere.Host = "other.00000000"
	if alive, known := elsewhere.Alive(); alive || known {
		t.Errorf("on another machine: alive %v, known %v", alive, known)
	}
}

func TestString(t *testing.T) {
	o := Owner{Host: "Ann's Mac_böok.local.0badcafe", PID: 12, Start: "345"}
	if got, want := o.String(), "Ann-s-Mac-b-ok.local.0badcafe/12/345"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, bad := range []string{"", "h", "h/1", "h/1/", "/1/2", "h/x/2", "h/-1/2", "h/0/2", "h/01/2", "h/1/2/3", "h h/1/2", "h/1/2\n", "h/99999999999999999999/2"} {
		if o, err := Parse(bad); err == nil {
			t.Errorf("Parse(%q) returns %v instead of an error", bad, o)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("host.0badcafe/12/345")
	f.Add("a/1/2/3")
	f.Fuzz(func(t *testing.T, s string) {
		o, err := Parse(s)
		if err == nil && o.String() != s {
			t.Errorf("%q is parsed as %q", s, o)
		}
		o.Alive()
	})
}
