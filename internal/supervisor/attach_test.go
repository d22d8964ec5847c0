//go:build unix

package supervisor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/opensshtest"
)

// A client that attaches finds the tasks that run and those that were not released, and gets all of their output, from
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
		swept(t, first.Node, "gone")
		wait := func(file string) string { return "until [ -e " + file + " ]; do sleep 0.05; done; " }
		first.launch(t, Spec{ID: "runs", Script: "echo begin; " + wait("go") + "yes on | head -n 20000; echo end; exit 9", Scratch: true})
		first.launch(t, Spec{ID: "bare", Script: wait("go") + "echo bare; exit 6"})
		first.launch(t, Spec{ID: "unwanted", Script: "echo $$ >unwanted; sleep 600", Scratch: true})
		first.launch(t, Spec{ID: "ends", Script: "echo $$ >ends; yes begin | head -n 2000; echo err >&2; " + wait("down") + "yes end | head -n 30000; exit 5", Scratch: true})
		ends, unwanted := await(t, first.facts.WorkDir+"/ends"), await(t, first.facts.WorkDir+"/unwanted")
		scratch := map[string]string{}
		for _, id := range append(over, "runs", "bare", "unwanted") {
			scratch[id] = first.Scratch(id)
		}
		first.kill()
		touch(t, first.facts.WorkDir+"/down")
		until(t, "the command's end", func() bool { return gone(ends) == nil })
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
			if !all[id].Over && (id != "ends" || shell != "perl") { // the runner may not have noticed yet
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
		until(t, "the end of what is unwanted", func() bool { return gone(unwanted) == nil })
		for id := range want {
			n.Release(id)
		}
		until(t, "the report of that end", func() bool { return n.Scratch("unwanted") == "" })
		delete(want, "resent") // whose file says that it was dropped
		swept(t, n, append(slices.Collect(maps.Keys(want)), "unwanted")...)
		if r := run(t, n, Spec{Script: `ls -A "$GPUTRAIN_SCRATCH"; echo again`, Scratch: true}); r.out != "again\n" || r.err != nil {
			t.Errorf("%+v", r)
		}
		if _, all := attach(t, srv, n, 3); len(all) != 1 { // only the last one is left
			t.Errorf("left: %+v", all)
		}
		awaitDone(t, n) // it connects again, and finds itself fenced off
	})
}

// A found task that is over can be released without being resumed.
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
		swept(t, n, "a")
		if _, all := attach(t, srv, n, 3); len(all) != 0 {
			t.Errorf("left: %+v", all)
		}
		awaitDone(t, n) // it connects again, and finds itself fenced off
	})
}

// Attach needs a node to attach to, with the same version of the protocol.
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
		if err := os.MkdirAll(cfg.Root+"/t", 0o700); err != nil { // its maker was killed at once
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
		if _, err := Start(t.Context(), c, cfg); !errors.Is(err, ErrVersion) { // Start then ends what is there
			t.Errorf("%v", err)
		}
	})
}

// A Resume whose ctx ends cancels its task.
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
			x, err := n.Resume(ctx, Spec{ID: "a"}, time.Time{}, Sinks{Stdout: w, Live: true})
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
