//go:build unix

package supervisor

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/test/disktest"
	"github.com/gputrain/gputrain/internal/test/opensshtest"
)

// A cut while a client attaches only delays it.
func TestAttachCut(t *testing.T) {
	srv := opensshtest.Start(t)
	eachShell(t, func(t *testing.T, shell string) {
		first := begin(t, srv, config(t, shell))
		for i := range 20 {
			if r := run(t, first.Node, Spec{ID: "a-" + strconv.Itoa(i), Args: []string{"echo", strconv.Itoa(i)}, Scratch: true}); r.err != nil {
				t.Fatalf("%+v", r)
			}
		}
		first.kill()
		cfg := first.cfg
		cfg.Root = first.facts.Root
		var last *Node
		var clients []*ssh.Client
		for i, after := range []int64{0, 500, 3000, 20000, 30000, 34000, 36000} {
			link := opensshtest.Proxy(t, srv.Addr)
			c := connect(t, srv, link.Addr)
			clients = append(clients, c)
			link.CutAfter(after)
			cfg.Generation = i + 2
			n, all, err := Attach(t.Context(), c, cfg)
			if err != nil || len(all) != 20 {
				t.Fatalf("cut after %d bytes: %d tasks, %v", after, len(all), err)
			}
			link.CutAfter(-1)
			last = n
			id := "a-" + strconv.Itoa(i)
			if r := resume(t, n, id); r.err != nil || r.out != strconv.Itoa(i)+"\n" {
				t.Errorf("cut after %d bytes: %+v", after, r)
			}
		}
		for _, c := range clients[:len(clients)-1] {
			c.Close() // otherwise one of them may have a session while the node is checked
		}
		if err := last.Close(t.Context(), true); err != nil {
			t.Error(err)
		}
		quiet := 0 // looks in a row: on a busy machine sshd may start a session whose client is gone already
		until(t, "the end of sessions whose clients are gone", func() bool {
			if quiet++; len(processes(t, "GPUTRAIN_POOL="+cfg.PoolID)) > 0 {
				quiet = 0
			}
			return quiet >= 20
		})
		clean(t, last)
	})
}

// A full disk does not prevent a takeover, nor lose output from before.
func TestAttachFullDisk(t *testing.T) {
	srv := opensshtest.Start(t)
	eachShell(t, func(t *testing.T, shell string) {
		dir := disktest.Small(t, 256<<10)
		cfg := config(t, shell)
		cfg.Root = dir + "/pool"
		first := begin(t, srv, cfg)
		if r := run(t, first.Node, Spec{ID: "over", Script: "yes | head -n 3000", Scratch: true}); r.err != nil || r.StdoutBytes != 6000 {
			t.Fatalf("%+v", r)
		}
		w := newWatch()
		go func() {
			_, _ = first.Run(t.Context(), Spec{ID: "runs", Script: "echo begin; until [ -e go ]; do sleep 0.05; done; exit 9", Scratch: true}, Sinks{Stdout: w, Live: true})
		}()
		w.await(t, "begin")
		disktest.Fill(t, dir+"/full", 0)
		first.kill()
		n, all := attach(t, srv, first.Node, 2)
		if f := all["over"]; !f.Over || len(all) != 2 {
			t.Errorf("%+v", all)
		}
		if r := resume(t, n, "over"); r.err != nil || r.out != strings.Repeat("y\n", 3000) {
			t.Errorf("%+v", r.Exit)
		}
		if _, _, err := Attach(t.Context(), connect(t, srv, ""), first.cfg); !errors.Is(err, ErrFenced) {
			t.Errorf("that a client has come was not noted: %v", err)
		}
		_ = os.Remove(dir + "/full")
		touch(t, n.facts.WorkDir+"/go")
		if r := resume(t, n, "runs"); r.err != nil || r.Code != 9 || r.out != "begin\n" {
			t.Errorf("%+v", r)
		}
	})
}

// A task whose wrapper or runner was killed while no client was there is found, and is over.
func TestAttachVanished(t *testing.T) {
	t.Parallel() // it mostly waits
	srv := opensshtest.Start(t)
	eachShell(t, func(t *testing.T, shell string) {
		first := begin(t, srv, config(t, shell))
		var forgotten []string // they are not known again
		for i := range 2 * sweepMany {
			id := "f-" + strconv.Itoa(i)
			forgotten = append(forgotten, id)
			if r := run(t, first.Node, Spec{ID: id, Args: []string{"true"}, Scratch: true}); r.err != nil {
				t.Fatalf("%+v", r)
			}
			first.Release(id)
		}
		swept(t, first.Node, forgotten...)
		first.launch(t, Spec{ID: "a", Script: "echo $$ >a; yes | head -n 5000; exec sleep 600", Scratch: true})
		pid := await(t, first.facts.WorkDir+"/a")
		scratch := first.Scratch("a")
		until(t, "its output", func() bool {
			info, err := os.Stat(first.facts.Root + "/t/a.out")
			return err == nil && info.Size() == 10000
		})
		first.kill()
		waiter := "a.start"
		if shell == "perl" {
			waiter = "runner"
		}
		killFirst(t, first.facts.Root+"/t/"+waiter)
		n, all := attach(t, srv, first.Node, 2)
		if len(all) != 1 || all["a"] != (Found{"a", true, scratch}) {
			t.Errorf("%+v", all)
		}
		if r := resume(t, n, "a"); r.err != nil || r.Cause != Vanished || r.out != strings.Repeat("y\n", 5000) {
			t.Errorf("%d bytes, %+v, %v", len(r.out), r.Exit, r.err)
		}
		until(t, "the command's end", func() bool { return gone(pid) == nil })
	})
}

// killFirst kills the process that is the first word of a file, and waits for its end.
func killFirst(t *testing.T, file string) {
	t.Helper()
	words := strings.Fields(await(t, file))
	pid, err := strconv.Atoi(words[0])
	if err != nil || pid <= 1 {
		t.Fatalf("%s: %q", file, words)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, "the end of a killed process", func() bool { return gone(words[0]) == nil })
}
