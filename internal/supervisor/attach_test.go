//go:build unix

package supervisor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/disktest"
	"github.com/gputrain/gputrain/internal/opensshtest"
)

// A killed program is one whose connection is cut for good. What it had running is
// there for the one that attaches.
type killable struct {
	*Node
	link *opensshtest.Link
}

// begin starts a node by a program that is to be killed, or to be fenced off.
func begin(t *testing.T, srv *opensshtest.Server, cfg Config) *killable {
	t.Helper()
	link := opensshtest.Proxy(t, srv.Addr)
	n, err := Start(t.Context(), connect(t, srv, link.Addr), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &killable{n, link}
}

func (k *killable) kill() {
	k.link.Refuse(true)
	k.link.Cut()
}

// launch has a task run, whose Run the program that is killed does not see return.
func (k *killable) launch(t *testing.T, spec Spec) {
	t.Helper()
	started := make(chan struct{})
	go func() {
		_, _ = k.Run(t.Context(), spec, Sinks{Started: func() { close(started) }}) // its end is the next one's
	}()
	<-started
}

// attach takes a node over with a generation. It is closed, and found clean, when
// the test ends, unless somebody has taken it over.
func attach(t *testing.T, srv *opensshtest.Server, n *Node, generation int) (*Node, map[string]Found) {
	t.Helper()
	cfg := n.cfg
	cfg.Root, cfg.Generation = n.facts.Root, generation
	next, all, err := Attach(t.Context(), connect(t, srv, ""), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		err := next.Close(ctx, true)
		if errors.Is(err, ErrFenced) {
			return
		}
		if err != nil {
			t.Error(err)
		}
		clean(t, next)
	})
	byID := map[string]Found{}
	for _, f := range all {
		byID[f.ID] = f
	}
	if len(byID) != len(all) {
		t.Errorf("some tasks are listed twice: %v", all)
	}
	return next, byID
}

func resume(t *testing.T, n *Node, id string) (r result) {
	t.Helper()
	var out, errs bytes.Buffer
	r.Exit, r.err = n.Resume(t.Context(), id, "", 0, Sinks{Stdout: &out, Stderr: &errs, Live: true})
	r.out, r.errs = out.String(), errs.String()
	return r
}

// swept waits until nothing is to be removed any more.
func swept(n *Node) {
	for left := 1; left > 0; time.Sleep(5 * time.Millisecond) {
		n.mu.Lock()
		left = n.broom.size() + n.broom.asked.size()
		n.mu.Unlock()
	}
}

// Who attaches finds what runs and what was not released, and gets all of it, from
// the first byte on.
func TestAttach(t *testing.T) {
	srv := opensshtest.Start(t)
	eachShell(t, func(t *testing.T, shell string) {
		cfg := config(t, shell)
		cfg.Lease = 7 * time.Minute
		first := begin(t, srv, cfg)
		lines := func(s string, n int) string { return strings.Repeat(s+"\n", n) }
		want := map[string]result{
			"short":  {Exit: Exit{Code: 3}, out: "out\n", errs: "err\n"},
			"silent": {},
			"long":   {Exit: Exit{Code: 4}, out: lines("out", 5000), errs: lines("err", 3000)},
			"runs":   {Exit: Exit{Code: 9}, out: "begin\n" + lines("on", 20000) + "end\n"},
			"ends":   {Exit: Exit{Code: 5}, out: lines("begin", 2000) + lines("end", 30000), errs: "err\n"},
			"bare":   {Exit: Exit{Code: 6}, out: "bare\n"},
			"resent": {Exit: Exit{Code: 0}, out: lines("r", 5000)},
		}
		over := []string{"short", "silent", "long", "resent", "ends"}
		for id, spec := range map[string]Spec{
			"short":  {Script: "echo out; echo err >&2; echo file >\"$GPUTRAIN_SCRATCH/f\"; exit 3", Scratch: true, Mark: true},
			"silent": {Script: ":", Scratch: true},
			"long":   {Script: "yes out | head -n 5000; cat >&2; exit 4", Scratch: true, Stdin: strings.NewReader(want["long"].errs)},
			"resent": {Script: "sleep 0.3; yes r | head -n 5000", Scratch: true},
			"gone":   {Script: "yes x | head -n 5000", Scratch: true},
		} {
			spec.ID = id
			r := runCtx(t.Context(), first.Node, spec, func() {
				if id == "resent" { // as after a cut
					first.mu.Lock()
					first.tasks[id].resent = true
					first.mu.Unlock()
				}
			})
			if r.err != nil || id != "gone" && (r.out != want[id].out || r.errs != want[id].errs) {
				t.Fatalf("%s: %+v", id, r)
			}
		}
		first.Release("gone")
		swept(first.Node)
		until := func(file string) string { return "until [ -e " + file + " ]; do sleep 0.05; done; " }
		first.launch(t, Spec{ID: "runs", Script: "echo begin; " + until("go") + "yes on | head -n 20000; echo end; exit 9", Scratch: true})
		first.launch(t, Spec{ID: "bare", Script: until("go") + "echo bare; exit 6"})
		first.launch(t, Spec{ID: "unwanted", Script: "echo $$ >unwanted; sleep 600", Scratch: true})
		first.launch(t, Spec{ID: "ends", Script: "echo $$ >ends; yes begin | head -n 2000; echo err >&2; " + until("down") + "yes end | head -n 30000; exit 5", Scratch: true})
		ends, unwanted := await(t, first.facts.WorkDir+"/ends"), await(t, first.facts.WorkDir+"/unwanted")
		scratch := map[string]string{}
		for _, id := range append(over, "runs", "bare", "unwanted") {
			scratch[id] = first.Scratch(id)
		}
		first.kill()
		touch(t, first.facts.WorkDir+"/down")
		for gone(ends) != nil {
			time.Sleep(5 * time.Millisecond)
		}
		if shell != "perl" {
			await(t, first.facts.Root+"/t/ends.status")
		}

		n, all := attach(t, srv, first.Node, 2)
		if f, g := n.Facts(), first.Facts(); f.Root != g.Root || f.WorkDir != g.WorkDir || f.CacheDir != g.CacheDir || f.OS != g.OS || f.Path != g.Path || f.Lease != cfg.Lease {
			t.Errorf("facts %+v, were %+v", f, g)
		}
		for id := range scratch {
			f, known := all[id]
			if !known || f.Scratch != scratch[id] || n.Scratch(id) != scratch[id] {
				t.Errorf("%s: found %v %+v, its scratch directory was %q", id, known, f, scratch[id])
			}
		}
		for _, id := range over {
			if !all[id].Over && (id != "ends" || shell != "perl") { // the runner may be about to hear of it
				t.Errorf("%s is not over", id)
			}
		}
		if len(all) != len(scratch) || all["runs"].Over || all["bare"].Over || all["unwanted"].Over {
			t.Errorf("found %+v", all)
		}
		if r := resume(t, n, "gone"); !errors.Is(r.err, ErrUnknownTask) {
			t.Errorf("%+v", r)
		}
		if r := resume(t, n, "No/id"); !errors.Is(r.err, ErrUnknownTask) {
			t.Errorf("%+v", r)
		}
		n.End("unwanted")
		n.End("nobody")
		touch(t, n.facts.WorkDir+"/go")
		for id, w := range want {
			r := resume(t, n, id)
			if r.err != nil || r.Code != w.Code || r.Cause != Exited || r.out != w.out || r.errs != w.errs || r.Scratch != scratch[id] {
				t.Errorf("%s: %d and %d bytes of %d and %d, %+v, %v", id, len(r.out), len(r.errs), len(w.out), len(w.errs), r.Exit, r.err)
			}
		}
		if b, err := os.ReadFile(n.Scratch("short") + "/f"); string(b) != "file\n" {
			t.Errorf("%q, %v", b, err)
		}
		if _, err := os.Stat(n.Marker("short")); err != nil {
			t.Error(err)
		}
		for gone(unwanted) != nil {
			time.Sleep(5 * time.Millisecond)
		}
		for id := range want {
			n.Release(id)
		}
		for n.Scratch("unwanted") != "" { // its end has come
			time.Sleep(5 * time.Millisecond)
		}
		swept(n)
		if r := run(t, n, Spec{Script: `ls -A "$GPUTRAIN_SCRATCH"; echo again`, Scratch: true}); r.out != "again\n" || r.err != nil {
			t.Errorf("%+v", r)
		}
		if _, all := attach(t, srv, n, 3); len(all) != 1 { // but for the last
			t.Errorf("left: %+v", all)
		}
	})
}

func touch(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// What is over and found can be released without being looked at.
func TestAttachReleases(t *testing.T) {
	srv := opensshtest.Start(t)
	eachShell(t, func(t *testing.T, shell string) {
		first := begin(t, srv, config(t, shell))
		if r := run(t, first.Node, Spec{ID: "a", Script: "yes | head -n 5000", Scratch: true}); r.err != nil {
			t.Fatalf("%+v", r)
		}
		first.kill()
		n, all := attach(t, srv, first.Node, 2)
		if !all["a"].Over {
			t.Errorf("%+v", all)
		}
		n.Release("a")
		swept(n)
		if _, all := attach(t, srv, n, 3); len(all) != 0 {
			t.Errorf("left: %+v", all)
		}
	})
}

// A client whose node was taken over, and that lives, is told so whatever it tries,
// and changes nothing.
func TestFenced(t *testing.T) {
	srv := opensshtest.Start(t)
	eachShell(t, func(t *testing.T, shell string) {
		cfg := config(t, shell)
		first := begin(t, srv, cfg)
		cfg.Root = first.facts.Root
		w := newWatch()
		followed := make(chan error, 1)
		go func() {
			_, err := first.Run(t.Context(), Spec{ID: "task", Script: "echo up; until [ -e go ]; do sleep 0.05; done; echo end; exit 9", Scratch: true}, Sinks{Stdout: w, Live: true})
			followed <- err
		}()
		w.await(t, "up")
		second, _ := attach(t, srv, first.Node, 5)
		if err := <-followed; !errors.Is(err, ErrFenced) {
			t.Errorf("the older client's Run: %v", err)
		}
		<-first.Done()
		if err := first.Err(); !errors.Is(err, ErrFenced) {
			t.Errorf("%v", err)
		}
		third, all := attach(t, srv, second, 6)
		if f, known := all["task"]; !known || f.Over {
			t.Errorf("%+v", all)
		}
		<-second.Done()

		// One that has not heard of it yet has nothing but what the node says.
		unaware, err := newNode(t.Context(), first.client, first.cfg)
		if err != nil {
			t.Fatal(err)
		}
		unaware.facts = first.facts
		for _, n := range []*Node{first.Node, second, unaware} {
			if n != unaware {
				for _, s := range []Spec{{Args: []string{"touch", "trace"}}, {Args: []string{"true"}, Stdin: strings.NewReader("x"), ID: "trace"}} {
					if r := run(t, n, s); !errors.Is(r.err, ErrFenced) {
						t.Errorf("%+v", r)
					}
				}
				if r := resume(t, n, "task"); !errors.Is(r.err, ErrFenced) {
					t.Errorf("%+v", r)
				}
				n.End("task")
				n.Release("task")
			}
			if err := n.store(t.Context(), "trace.in", strings.NewReader("x")); !errors.Is(err, ErrFenced) {
				t.Errorf("%v", err)
			}
			for range 2 {
				if err := n.Close(t.Context(), true); !errors.Is(err, ErrFenced) {
					t.Errorf("%v", err)
				}
			}
		}
		for generation := range 6 {
			cfg.Generation = generation
			if _, err := Start(t.Context(), connect(t, srv, ""), cfg); !errors.Is(err, ErrFenced) {
				t.Errorf("Start: %v", err)
			}
			if _, _, err := Attach(t.Context(), connect(t, srv, ""), cfg); !errors.Is(err, ErrFenced) {
				t.Errorf("Attach: %v", err)
			}
		}
		touch(t, third.facts.WorkDir+"/go")
		if r := resume(t, third, "task"); r.err != nil || r.Code != 9 || r.out != "up\nend\n" {
			t.Errorf("%+v", r)
		}
		for _, trace := range []string{"/work/trace", "/t/trace.in"} {
			if _, err := os.Stat(third.facts.Root + trace); !os.IsNotExist(err) {
				t.Errorf("%s: %v", trace, err)
			}
		}
		if r := run(t, third, Spec{Script: "echo out"}); r.err != nil || r.out != "out\n" {
			t.Errorf("%+v", r)
		}
	})
}

// A start that an older client has sent just before is not carried out behind the
// back of who has listed the tasks.
func TestFencedStart(t *testing.T) {
	srv := opensshtest.Start(t)
	eachShell(t, func(t *testing.T, shell string) {
		if shell == "perl" {
			t.Skip("the runner does one thing after the other, and leaves a session with what it has not done")
		}
		n := start(t, connect(t, srv, ""), config(t, shell))
		if err := os.WriteFile(n.facts.Root+"/t/owner", []byte("7                  ;\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if r := run(t, n, Spec{Args: []string{"touch", "trace"}}); !errors.Is(r.err, ErrNotStarted) || !errors.Is(r.err, ErrFenced) {
			t.Errorf("%+v", r)
		}
		if _, err := os.Stat(n.facts.WorkDir + "/trace"); !os.IsNotExist(err) {
			t.Errorf("it was started (%v)", err)
		}
		n.cfg.Generation = 7 // for Close
	})
}

// Two that come at once do not share the node: the higher generation has it.
func TestAttachAtOnce(t *testing.T) {
	srv := opensshtest.Start(t)
	eachShell(t, func(t *testing.T, shell string) {
		first := begin(t, srv, config(t, shell))
		first.kill()
		cfg := first.cfg
		cfg.Root = first.facts.Root
		const many = 4
		nodes, errs := make([]*Node, many), make([]error, many)
		done := make(chan int)
		for i := range many {
			c := connect(t, srv, "")
			cfg := cfg
			cfg.Generation = i + 2
			go func() {
				nodes[i], _, errs[i] = Attach(t.Context(), c, cfg)
				done <- i
			}()
		}
		for range many {
			<-done
		}
		last := nodes[many-1]
		if last == nil {
			t.Fatal(errs[many-1])
		}
		if r := run(t, last, Spec{Script: "echo mine"}); r.err != nil || r.out != "mine\n" {
			t.Errorf("%+v", r)
		}
		for i, n := range nodes[:many-1] {
			if n == nil {
				if !errors.Is(errs[i], ErrFenced) {
					t.Errorf("generation %d: %v", i+2, errs[i])
				}
				continue
			}
			<-n.Done()
			if err := n.Close(t.Context(), true); !errors.Is(err, ErrFenced) || !errors.Is(n.Err(), ErrFenced) {
				t.Errorf("generation %d: %v, %v", i+2, err, n.Err())
			}
		}
		if err := last.Close(t.Context(), true); err != nil {
			t.Error(err)
		}
		clean(t, last)
	})
}

// There must be something to attach to, and it must speak the same.
func TestAttachRefused(t *testing.T) {
	srv := opensshtest.Start(t)
	eachShell(t, func(t *testing.T, shell string) {
		c := connect(t, srv, "")
		cfg := config(t, shell)
		cfg.Generation = 2
		expect := func(want error) error {
			t.Helper()
			_, _, err := Attach(t.Context(), c, cfg)
			if !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
			return err
		}
		expect(ErrLapsed)
		if _, err := os.Stat(cfg.Root); !os.IsNotExist(err) {
			t.Errorf("a place was made (%v)", err)
		}
		none := cfg
		none.Root = ""
		if _, _, err := Attach(t.Context(), c, none); err == nil {
			t.Error("it attaches to nowhere")
		}
		if err := os.MkdirAll(cfg.Root+"/t", 0o700); err != nil { // who made it was killed at once
			t.Fatal(err)
		}
		expect(ErrLapsed)

		n := start(t, c, cfg)
		file := func(name string) string { return n.facts.Root + "/t/" + name }
		pool := await(t, file("pool"))
		write := func(name, text string) {
			t.Helper()
			if err := os.WriteFile(file(name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cfg.Generation = 3
		write("pool", "99"+strings.TrimPrefix(pool, protocol))
		if err := expect(ErrVersion); !strings.Contains(err.Error(), `"99"`) || !strings.Contains(err.Error(), `"`+protocol+`"`) {
			t.Errorf("%v", err)
		}
		if _, err := Start(t.Context(), c, cfg); !errors.Is(err, ErrVersion) { // which then ends what is there
			t.Errorf("%v", err)
		}
	})
}

// A cut while a client attaches costs nothing but time.
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
		for i, after := range []int64{0, 500, 3000, 20000, 30000, 34000, 36000} {
			link := opensshtest.Proxy(t, srv.Addr)
			c := connect(t, srv, link.Addr)
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
		if err := last.Close(t.Context(), true); err != nil {
			t.Error(err)
		}
		clean(t, last)
	})
}

// A full disk does not hinder taking over, with what was printed before.
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

// A task whose wrapper or runner was killed while no client was there is found, and
// is over.
func TestAttachVanished(t *testing.T) {
	srv := opensshtest.Start(t)
	eachShell(t, func(t *testing.T, shell string) {
		first := begin(t, srv, config(t, shell))
		for i := range 2 * sweepMany { // what was forgotten is not known again
			id := "f-" + strconv.Itoa(i)
			if r := run(t, first.Node, Spec{ID: id, Args: []string{"true"}, Scratch: true}); r.err != nil {
				t.Fatalf("%+v", r)
			}
			first.Release(id)
		}
		swept(first.Node)
		first.launch(t, Spec{ID: "a", Script: "echo $$ >a; yes | head -n 5000; exec sleep 600", Scratch: true})
		pid := await(t, first.facts.WorkDir+"/a")
		scratch := first.Scratch("a")
		for file := "a.out"; ; time.Sleep(5 * time.Millisecond) {
			if info, err := os.Stat(first.facts.Root + "/t/" + file); err == nil && info.Size() == 10000 {
				break
			}
		}
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
		for gone(pid) != nil {
			time.Sleep(5 * time.Millisecond)
		}
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
	for gone(words[0]) != nil {
		time.Sleep(time.Millisecond)
	}
}

// Whose ctx ends while it follows a task that was found ends that.
func TestResumeCancelled(t *testing.T) {
	srv := opensshtest.Start(t)
	eachShell(t, func(t *testing.T, shell string) {
		first := begin(t, srv, config(t, shell))
		first.launch(t, Spec{ID: "a", Script: "trap 'exit 5' TERM; echo up; while :; do sleep 0.05; done", Scratch: true})
		first.kill()
		n, _ := attach(t, srv, first.Node, 2)
		ctx, cancel := context.WithCancel(t.Context())
		w := newWatch()
		over := make(chan error, 1)
		go func() {
			x, err := n.Resume(ctx, "a", "", 0, Sinks{Stdout: w, Live: true})
			if err == nil && (x.Cause != Cancelled || x.Code != 5) {
				err = fmt.Errorf("%+v", x)
			}
			over <- err
		}()
		w.await(t, "up")
		if r := resume(t, n, "a"); r.err == nil {
			t.Error("it is followed twice")
		}
		cancel()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
}
