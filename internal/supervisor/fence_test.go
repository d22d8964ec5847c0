//go:build unix

package supervisor

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/opensshtest"
)

// A living client whose node was taken over gets ErrFenced from every call, and changes nothing.
func TestFenced(t *testing.T) {
	t.Parallel() // it mostly waits
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
		awaitDone(t, first.Node)
		if err := first.Err(); !errors.Is(err, ErrFenced) {
			t.Errorf("%v", err)
		}
		third, all := attach(t, srv, second, 6)
		if f, known := all["task"]; !known || f.Over {
			t.Errorf("%+v", all)
		}
		awaitDone(t, second)

		// A client that does not know yet learns it only from the node.
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
			if err := n.files.store(t.Context(), "trace.in", strings.NewReader("x")); !errors.Is(err, ErrFenced) {
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
		for _, trace := range []string{third.facts.WorkDir + "/trace", third.facts.Root + "/t/trace.in"} {
			if _, err := os.Stat(trace); !os.IsNotExist(err) {
				t.Errorf("%s: %v", trace, err)
			}
		}
		if r := run(t, third, Spec{Script: "echo out"}); r.err != nil || r.out != "out\n" {
			t.Errorf("%+v", r)
		}
	})
}

// A start that an older client sent just before is not executed once the new client has listed the tasks.
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

// A client that is deposed just as its session begins to report learns that: nothing of the session is left.
func TestAttachIsDeposedAtItsStart(t *testing.T) {
	srv := opensshtest.Start(t)
	usual, at := opening, "gt_r=$!\n"
	if strings.Count(script, at) != 1 {
		t.Fatalf("the script does not have %q once", at)
	}
	opening = openingOf(strings.Replace(script, at, at+`[ "$gt_gen" != 2 ] || { : >stands; sleep 600 >/dev/null 2>&1; }`+"\n", 1))
	defer func() { opening = usual }()
	eachShell(t, func(t *testing.T, shell string) {
		if shell == "perl" {
			t.Skip("the runner does one thing after the other, and has no reporter")
		}
		first := begin(t, srv, config(t, shell))
		first.kill()
		c, ended := connect(t, srv, ""), make(chan error)
		cfg := first.cfg
		cfg.Root, cfg.Generation = first.facts.Root, 2
		go func() {
			_, _, err := Attach(t.Context(), c, cfg)
			ended <- err
		}()
		until(t, "the second session", func() bool {
			_, err := os.Stat(first.facts.Root + "/t/stands")
			return err == nil
		})
		attach(t, srv, first.Node, 3)
		select {
		case err := <-ended:
			if !errors.Is(err, ErrFenced) {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Error("the client that was deposed waits for ever")
			c.Close()
			<-ended
		}
	})
}

// Two clients that come at once do not share the node: the higher generation gets it.
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
			awaitDone(t, n)
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
