//go:build unix

package preflight

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/opensshtest"
	"github.com/gputrain/gputrain/internal/test/ports"
	"github.com/gputrain/gputrain/providers/driver"
)

// severe returns the problems that are more than notes.
func severe(all []Problem) (some []Problem) {
	for _, p := range all {
		if p.Severity > Note {
			some = append(some, p)
		}
	}
	return some
}

// Nodes that are processes of one machine, as those of providers/local, reach each other, under every shell and with every
// tool, also the port of the gang.
func TestNodesOfOneMachine(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		shell string
		tools []string
	}{
		"dash, python3":      {"dash", []string{"python3"}},
		"bash, python3":      {"bash", []string{"python3"}},
		"busybox, python3":   {"busybox", []string{"python3"}},
		"dash, perl":         {"dash", []string{"perl"}},
		"bash, perl":         {"bash", []string{"perl"}},
		"busybox ash, perl":  {"busybox", []string{"perl"}},
		"dash, busybox nc":   {"dash", []string{"busybox"}},
		"bash, busybox nc":   {"bash", []string{"busybox"}},
		"busybox, itself nc": {"busybox", []string{"busybox"}},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && name != "dash, python3" && name != "bash, perl" && name != "busybox, itself nc" {
				t.Skip("scripts/test -deep runs it: a short run has each shell and each tool once")
			}
			t.Parallel()
			var nodes []Node
			for i := range 3 {
				nodes = append(nodes, Node{Rank: i, Addr: "127.0.0.1", Commands: here(t, tt.shell, tt.tools...)})
			}
			facts, problems := Check(t.Context(), nodes, Options{Port: ports.Free(t).Port})
			if bad := severe(problems); len(bad) > 0 {
				t.Errorf("%v", bad)
			}
			for _, p := range problems {
				if strings.Contains(p.Err.Error(), "checked") {
					t.Errorf("%v", p.Err)
				}
			}
			for _, f := range facts {
				if f.Interface != "lo" || f.DiskBytes <= 0 || f.Files == 0 || f.OffsetError <= 0 {
					t.Errorf("%+v", f)
				}
			}
		})
	}
}

// Each severity has its own name, and no other number panics.
func TestSeverity(t *testing.T) {
	got := fmt.Sprint(Note, Again, Replace, Refuse, Refuse+1, Severity(-1))
	if want := "note again replace refuse Severity(4) Severity(-1)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// An endless node says something else without end, whatever it is to run.
type endless struct {
	text string
	said *atomic.Int64
}

func (e endless) ExecMoving(_ context.Context, _ string, _ io.Reader, stdout, stderr io.Writer) error {
	for part := strings.Repeat(e.text, 1<<10); e.said.Load() < 64<<20; e.said.Add(int64(len(part))) {
		for _, w := range []io.Writer{stdout, stderr} {
			if _, err := io.WriteString(w, part); err != nil {
				return err
			}
		}
	}
	return nil
}

// A node that listens, dials or describes itself without end is not heard to the end, and no problem of it has much to say.
func TestAnswersWithoutEnd(t *testing.T) {
	n := Node{Addr: "127.0.0.1"}
	for _, text := range []string{"port 0 1\n", "busy 1 x\n", "ok 0\n", "x", "@disk\n"} {
		for name, ask := range map[string]func() error{
			"listen":   func() error { _, err := listen(t.Context(), n, []string{"0"}); return err },
			"dial":     func() error { _, err := dial(t.Context(), n, []target{{host: "127.0.0.1", port: 1}}); return err },
			"describe": func() error { _, err := describe(t.Context(), n); return err },
		} {
			e := endless{text, new(atomic.Int64)}
			n.Commands = e
			err := ask()
			if name != "dial" && err == nil || err != nil && len(err.Error()) > 16<<10 {
				t.Errorf("%s %q: %.300v", name, text, err)
			}
			if e.said.Load() > 16<<20 {
				t.Errorf("%s %q: %d MiB were taken", name, text, e.said.Load()>>20)
			}
		}
	}
}

// Nodes without any tool are noted as unknown: they are not taken for nodes that cannot reach each other.
func TestNodesWithoutTools(t *testing.T) {
	t.Parallel()
	nodes := []Node{{Rank: 4, Addr: "127.0.0.1", Commands: here(t, "dash")}, {Rank: 7, Addr: "127.0.0.1", Commands: here(t, "dash", "perl")}}
	_, problems := Check(t.Context(), nodes, Options{})
	if len(severe(problems)) > 0 || len(problems) == 0 || !errors.Is(problems[0].Err, errNoTool) || !strings.Contains(problems[0].Err.Error(), "node 4 ") {
		t.Errorf("%v", problems)
	}
}

// The port of the gang that another program has is named, and so is one that another program answers.
func TestPortInUse(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	for _, tool := range []string{"python3", "perl", "busybox"} {
		nodes := []Node{{Addr: "127.0.0.1", Commands: here(t, "dash", tool)}, {Rank: 1, Addr: "127.0.0.1", Commands: here(t, "dash", tool)}}
		_, problems := Check(t.Context(), nodes, Options{Port: port})
		bad := severe(problems)
		if len(bad) != 1 || bad[0].Node != 0 || bad[0].Severity != Again || !errors.Is(bad[0].Err, driver.ErrUnavailable) || !strings.Contains(bad[0].Err.Error(), "node 0 cannot listen on its port") {
			t.Errorf("%s: %v", tool, problems)
		}
	}
}

// A port that nc cannot have, as one of a connection, which no listener shows, is not taken for a node that does not listen:
// nc is asked for another one.
func TestPortTakenByAConnection(t *testing.T) {
	t.Parallel()
	checkWithNC(t, 2, `case $* in -l*)
	for port; do :; done
	[ -e "$HOME/taken" ] || echo "$port" >"$HOME/taken"
	[ "$port" != "$(cat "$HOME/taken")" ] || exit 1
esac
exec busybox nc "$@"
`)
}

// Some versions of nc fail after each connection that the peer ends. The next peer is served too.
func TestExitStatusOfNC(t *testing.T) {
	t.Parallel()
	started := filepath.Join(t.TempDir(), "started")
	t.Cleanup(func() { // the shell around it is killed, and cannot end it
		pids, _ := os.ReadFile(started)
		for _, text := range strings.Fields(string(pids)) {
			name, _ := os.ReadFile("/proc/" + text + "/comm")
			if pid, err := strconv.Atoi(text); err == nil && strings.TrimSpace(string(name)) == "busybox" {
				syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
	checkWithNC(t, 3, `exec 3<&0
busybox nc "$@" <&3 &
echo $! >>'`+started+`'
trap 'kill $!; exit 1' TERM
wait $!
exit 1
`)
}

// checkWithNC checks nodes whose nc is a script. They must pass.
func checkWithNC(t *testing.T, n int, script string) {
	t.Helper()
	var nodes []Node
	for i := range n {
		p := here(t, "dash", "busybox")
		bin := strings.TrimPrefix(p.env[0], "PATH=")
		if err := os.WriteFile(filepath.Join(bin, "nc"), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, Node{Rank: i, Addr: "127.0.0.1", Commands: p})
	}
	if _, problems := Check(t.Context(), nodes, Options{}); len(severe(problems)) > 0 {
		t.Errorf("%v", problems)
	}
}

// Nodes on one network pass. One that another one cannot reach is named with address and port, in both directions; of several
// nodes, one that is in all failures is to be replaced.
func TestContainersOnOneNetwork(t *testing.T) {
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: it starts containers")
	}
	t.Parallel()
	busybox := opensshtest.Program(t, "busybox", "busybox")
	all := boxes(t, "one", 3)
	nodes := gang(all)
	facts, problems := Check(t.Context(), nodes, Options{Port: 29500, Processes: 2})
	if bad := severe(problems); len(bad) > 0 {
		t.Fatalf("%v", bad)
	}
	shm := false
	for _, p := range problems {
		shm = shm || strings.Contains(p.Err.Error(), "64 MiB of /dev/shm for 2 processes")
	}
	if !shm || facts[1].Interface != "eth0" || facts[1].Interfaces != 1 || facts[1].Offset.Abs() > time.Minute {
		t.Errorf("%v; %+v", problems, facts[1])
	}
	for _, b := range all {
		if out, err := exec.Command("docker", "cp", "--follow-link", busybox, b.id+":/bin/busybox").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	// Without python3 and perl, by busybox.
	for _, b := range all[:2] {
		b.run(t, "mv /usr/bin/python3 /usr/bin/python3.away; mv /usr/bin/perl /usr/bin/perl.away")
	}
	if _, problems = Check(t.Context(), nodes, Options{Port: 29500}); len(severe(problems)) > 0 {
		t.Errorf("with busybox: %v", problems)
	}
	// Node 2 reaches no other node.
	for _, b := range all[:2] {
		all[2].run(t, "busybox route add -host "+b.addr+" reject")
	}
	_, problems = Check(t.Context(), nodes, Options{Port: 29500})
	bad := severe(problems)
	if len(bad) < 2 {
		t.Fatalf("%v", problems)
	}
	for _, p := range bad {
		if p.Node != 2 || p.Severity != Replace || p.Peer == 2 || !errors.Is(p.Err, driver.ErrUnavailable) || !strings.Contains(p.Err.Error(), "open all TCP ports between the nodes") {
			t.Errorf("%+v", p)
		}
	}
	said := ""
	for _, p := range bad {
		said += p.Err.Error() + "\n"
	}
	if !strings.Contains(said, "node 2 cannot reach node 0 at "+all[0].addr+":29500") || !strings.Contains(said, "node 2 cannot reach node 1 at "+all[1].addr+":") {
		t.Error(said)
	}
	// Of two, either may be it.
	_, problems = Check(t.Context(), []Node{nodes[0], nodes[2]}, Options{})
	if bad := severe(problems); len(bad) == 0 || bad[0].Severity != Refuse {
		t.Errorf("%v", problems)
	}
}

// Nodes on networks that do not know each other are refused, also if they have the same addresses there.
func TestContainersOnTwoNetworks(t *testing.T) {
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: it starts containers")
	}
	t.Parallel()
	a, b := boxes(t, "a", 1), boxes(t, "b", 1)
	_, problems := Check(t.Context(), gang(append(a, b...)), Options{Port: 29500})
	bad := severe(problems)
	if len(bad) == 0 {
		t.Fatalf("%v", problems)
	}
	for _, p := range bad {
		if p.Severity != Refuse || !errors.Is(p.Err, driver.ErrUnavailable) || !strings.Contains(p.Err.Error(), " cannot reach node ") {
			t.Errorf("%+v", p)
		}
	}
	nodes := []Node{{Addr: "127.0.0.1", Commands: a[0].place()}, {Rank: 1, Addr: "127.0.0.1", Commands: b[0].place()}}
	_, problems = Check(t.Context(), nodes, Options{})
	if bad := severe(problems); len(bad) == 0 || !strings.Contains(bad[0].Err.Error(), "that address leads each machine to itself") {
		t.Errorf("%v", problems)
	}
}

// A check leaves no process and no file.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	p := here(t, "dash", "busybox")
	tmp := t.TempDir()
	p.env = append(p.env, "TMPDIR="+tmp)
	nodes := []Node{{Addr: "127.0.0.1", Commands: p}, {Rank: 1, Addr: "127.0.0.1", Commands: p}}
	if _, problems := Check(t.Context(), nodes, Options{}); len(severe(problems)) > 0 {
		t.Errorf("%v", problems)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
	marker := "TMPDIR=" + tmp
	for start := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		left := processesWith(marker)
		if len(left) == 0 {
			return
		}
		if time.Since(start) > 20*time.Second {
			t.Fatalf("left: %q", left)
		}
	}
}

// processesWith returns the commands of processes that have a variable.
func processesWith(marker string) (all []string) {
	dirs, _ := os.ReadDir("/proc")
	for _, d := range dirs {
		env, _ := os.ReadFile("/proc/" + d.Name() + "/environ")
		if strings.Contains(string(env), marker) {
			text, _ := os.ReadFile("/proc/" + d.Name() + "/cmdline")
			all = append(all, strings.ReplaceAll(string(text), "\x00", " "))
		}
	}
	return all
}
