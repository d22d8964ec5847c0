package supervisor

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/opensshtest"
)

// If perl does not work, or a variable changes what it runs, the shell runs the tasks, in later sessions too.
func TestPerlThatCannot(t *testing.T) {
	srv := opensshtest.Start(t)
	broken := t.TempDir()
	if err := os.WriteFile(broken+"/perl", []byte("#!/bin/sh\necho what\nexit 2\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, env := range map[string]string{
		"broken":  "PATH='" + broken + ":" + os.Getenv("PATH") + "'",
		"missing": "PATH='" + withoutPerl(t) + "'",
		"options": "PERL5OPT=-w",
	} {
		t.Run(name, func(t *testing.T) {
			link := opensshtest.Proxy(t, srv.Addr)
			cfg := config(t, "perl")
			cfg.Shell = "env " + env + " sh"
			n, err := Start(t.Context(), connect(t, srv, link.Addr), cfg)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				n.mu.Lock()
				if n.control != nil && n.control.runner {
					t.Error("it is perl's work")
				}
				n.mu.Unlock()
				if r := run(t, n, Spec{Script: "echo out; exit 3"}); r.err != nil || r.out != "out\n" || r.Code != 3 {
					t.Errorf("%+v", r)
				}
				link.Cut()
			}
			if err := n.Close(t.Context(), true); err != nil {
				t.Error(err)
			}
			clean(t, n)
		})
	}
}

// The perl programs are valid under perl's strict rules.
func TestPerlPrograms(t *testing.T) {
	needShell(t, "perl")
	for _, name := range []string{"session.pl", "runner.pl"} {
		out, err := exec.CommandContext(t.Context(), "perl", "-wc", name).CombinedOutput()
		if text, _ := os.ReadFile(name); err != nil || strings.TrimSpace(string(out)) != name+" syntax OK" || !strings.Contains(string(text), "\nuse strict;\n") {
			t.Errorf("%s: %v, %s", name, err, out)
		}
	}
}

// withoutPerl returns a PATH with all programs of the usual folders except perl.
func withoutPerl(t *testing.T) string {
	dir := t.TempDir()
	for _, from := range []string{"/usr/bin", "/bin", "/usr/sbin", "/sbin"} {
		programs, err := os.ReadDir(from)
		if err != nil {
			continue
		}
		for _, p := range programs {
			if !strings.HasPrefix(p.Name(), "perl") {
				_ = os.Symlink(from+"/"+p.Name(), dir+"/"+p.Name()) // the first one counts
			}
		}
	}
	return dir
}

// killRunner kills a node's runner, and returns when another one has taken its place.
func killRunner(t *testing.T, n *Node) {
	t.Helper()
	runner := func() (pid int) {
		words := strings.Fields(await(t, n.facts.Root+"/t/runner"))
		if len(words) > 0 {
			pid, _ = strconv.Atoi(words[0])
		}
		return pid
	}
	pid := runner()
	if pid <= 1 {
		t.Fatal("there is no runner")
	}
	process, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	until(t, "another runner", func() bool { next := runner(); return next != pid && next != 0 })
}

// A runner knows what its killed predecessor started, even if the journal was long: nothing runs twice.
func TestRunnerIsKilled(t *testing.T) {
	n := start(t, connect(t, opensshtest.Start(t), ""), config(t, "perl"))
	once := Spec{ID: "once", Script: "echo x >>runs; echo out; exit 4", Scratch: true}
	for range 2 { // with a scratch directory, the task is not forgotten
		if r := run(t, n, once); r.err != nil || r.Code != 4 || r.out != "out\n" {
			t.Errorf("%+v", r)
		}
	}
	junk, err := os.OpenFile(n.facts.Root+"/t/journal", os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := junk.WriteString(strings.Repeat("S junk\n", 200_000)); err != nil {
		t.Fatal(err)
	}
	junk.Close()
	for deadline := time.Now().Add(time.Minute); ; {
		for range sweepMany {
			if r := run(t, n, Spec{Args: []string{"true"}}); r.err != nil || r.Code != 0 {
				t.Fatalf("%+v", r)
			}
		}
		info, err := os.Stat(n.facts.Root + "/t/journal")
		if err == nil && info.Size() < 100_000 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the journal stays long")
		}
	}
	killRunner(t, n)
	if r := run(t, n, once); r.err != nil || r.Cause != Vanished {
		t.Errorf("%+v", r)
	}
	if b, _ := os.ReadFile(n.facts.WorkDir + "/runs"); string(b) != "x\n" {
		t.Errorf("runs: %q", b)
	}
	if r := run(t, n, Spec{Script: "echo again"}); r.err != nil || r.out != "again\n" {
		t.Errorf("%+v", r)
	}
}

// The files of finished tasks are removed, even if the connection is cut during that request.
func TestSweptAfterCuts(t *testing.T) {
	srv := opensshtest.Start(t)
	eachShell(t, func(t *testing.T, shell string) {
		link := opensshtest.Proxy(t, srv.Addr)
		n := start(t, connect(t, srv, link.Addr), config(t, shell))
		for i := range 4 {
			id := "sw-" + strconv.Itoa(i)
			if r := run(t, n, Spec{ID: id, Script: "yes | head -n 5000", Scratch: true, Stdin: strings.NewReader("in")}); r.err != nil || r.StdoutBytes != 10000 {
				t.Fatalf("%+v", r)
			}
			n.Release(id)
		}
		dials := link.Dials()
		link.CutAfter(1) // before the next question has passed
		until(t, "another connection", func() bool { return link.Dials() > dials })
		link.CutAfter(-1)
		var left []string
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
			left, _ = filepath.Glob(n.facts.Root + "/t/sw-*")
			dirs, _ := filepath.Glob(n.facts.Root + "/s/*")
			// A shell makes some directories in advance, each with one for step files.
			if len(left) == 0 && len(dirs) < 2*scratchAhead && (shell != "perl" || len(dirs) == 0) {
				return
			}
		}
		t.Errorf("left: %v", left)
	})
}

// If a login allows few open files, tasks wait for their turn, and lose no output.
func TestFewDescriptors(t *testing.T) {
	cfg := config(t, "perl")
	cfg.Shell = "sh -c 'ulimit -n 96; exec sh'"
	n := start(t, connect(t, opensshtest.Start(t), ""), cfg)
	const many = 60
	for name, end := range map[string]string{
		"runs": "sleep 0.2; ulimit -n", "has ended, and another process has its output": "ulimit -n; sleep 0.5 &",
	} {
		results := make(chan result, many)
		for range many {
			go func() {
				results <- run(t, n, Spec{Script: "yes out | head -n 5000; yes err | head -n 5000 >&2; " + end})
			}()
		}
		for range many {
			r := <-results
			if r.err != nil || r.DiskFull || r.out != strings.Repeat("out\n", 5000)+"96\n" || r.errs != strings.Repeat("err\n", 5000) {
				t.Errorf("of one that %s: %d and %d bytes, %+v, %v", name, len(r.out), len(r.errs), r.Exit, r.err)
			}
		}
	}
}
