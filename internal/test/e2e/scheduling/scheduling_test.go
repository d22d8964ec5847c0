package scheduling

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/sim"
)

// A diary records the words of simulated tasks when they start. By default a task runs for 100 ms.
type diary struct {
	mu   sync.Mutex
	said []string
}

func (d *diary) exec(ctx context.Context, cmd sim.Command) int {
	word := strings.TrimSpace(cmd.Args[1] + " " + cmd.Getenv("GPUTRAIN_TASK_INDEX"))
	d.mu.Lock()
	d.said = append(d.said, word)
	d.mu.Unlock()
	switch cmd.Args[0] {
	case "mib":
		cmd.Stdout.Write(bytes.Repeat([]byte("x"), 1<<20-1))
		return 0
	case "quick":
		return 0
	case "fail":
		return 3
	case "once": // fails at its first attempt
		if cmd.Getenv("GPUTRAIN_ATTEMPT") == "1" {
			return 3
		}
	}
	select {
	case <-time.After(100 * time.Millisecond):
		return 0
	case <-ctx.Done():
		return -15
	}
}

// count returns how often tasks recorded a word.
func (d *diary) count(word string) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.said {
		if name, _, _ := strings.Cut(s, " "); name == word {
			n++
		}
	}
	return n
}

func (d *diary) all() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.said)
}

// beside runs a Gather of 40 plain tasks of 100 ms on two nodes while eight goroutines keep calling
// call, until the Gather ends or a minute has passed. It returns how many tasks of each kind
// started.
func beside(t *testing.T, call func(*gputrain.Compute, int)) (gathered, others int) {
	var d diary
	e2etest.InCloud(t, sim.Options{Exec: d.exec}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{Nodes: 2})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var callers sync.WaitGroup
		for i := range 8 {
			callers.Go(func() {
				for ctx.Err() == nil {
					call(p.WithContext(ctx), i)
				}
			})
		}
		time.Sleep(time.Second)
		before := d.count("other")
		tasks := make([]gputrain.Task, 40)
		for i := range tasks {
			tasks[i] = gputrain.Cmd("run", "gathered")
		}
		p.WithContext(ctx).Gather(tasks...)
		gathered, others = d.count("gathered"), d.count("other")-before
		cancel()
		callers.Wait()
		c.CloseAndCheck(t, p)
	})
	t.Logf("%d tasks of the Gather started beside %d others", gathered, others)
	return gathered, others
}

// Tasks with targets that keep coming alternate with tasks that have none.
func TestTasksWithTargetsLeavePlainOnesTheirTurn(t *testing.T) {
	gathered, others := beside(t, func(p *gputrain.Compute, i int) {
		task := gputrain.Cmd("run", "other")
		task.Target = gputrain.OnRank(i % 2)
		if i > 3 {
			task.Target = gputrain.OnLabels(map[string]string{gputrain.LabelProvider: "sim"})
		}
		p.Run(task)
	})
	if gathered != 40 || others > 44 || others < 36 {
		t.Errorf("%d of 40 plain tasks and %d with a target were started", gathered, others)
	}
}

// Broadcasts that keep coming alternate with tasks.
func TestBroadcastsLeavePlainTasksTheirTurn(t *testing.T) {
	gathered, others := beside(t, func(p *gputrain.Compute, i int) { p.Broadcast(gputrain.Cmd("run", "other")) })
	if gathered != 40 || others > 44 || others < 36 {
		t.Errorf("%d of 40 plain tasks and %d shares of broadcasts were started", gathered, others)
	}
}

// Calls of one kind take turns: a Gather gets one turn in nine beside eight goroutines that run
// single tasks in a row.
func TestCallsTakeTurns(t *testing.T) {
	gathered, others := beside(t, func(p *gputrain.Compute, i int) { p.Run(gputrain.Cmd("run", "other")) })
	if gathered != 40 || others > 9*40 || others < 5*40 {
		t.Errorf("%d of 40 tasks of the Gather and %d others were started", gathered, others)
	}
}

// A Run during a long Gather that uses every slot waits for only one of its tasks.
func TestRunWaitsForOneTaskOfAGather(t *testing.T) {
	var d diary
	e2etest.InCloud(t, sim.Options{Exec: d.exec}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{Nodes: 1})
		tasks := make([]gputrain.Task, 100)
		for i := range tasks {
			tasks[i] = gputrain.Cmd("run", "gathered")
		}
		var gather sync.WaitGroup
		gather.Go(func() {
			if _, err := p.Gather(tasks...); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(250 * time.Millisecond)
		for _, how := range []string{"run", "start", "stream", "broadcast", "targeted"} {
			task := gputrain.Cmd("run", how)
			synctest.Wait() // the Gather's task in the slot has started
			before := d.count("gathered")
			switch how {
			case "run":
				p.Run(task)
			case "start":
				p.Start(task).Wait()
			case "stream":
				for range p.Stream(task) {
				}
			case "broadcast":
				p.Broadcast(task)
			case "targeted":
				task.Target = gputrain.OnRank(0)
				p.Run(task)
			}
			if d.count(how) != 1 {
				t.Errorf("%s did not run", how)
			}
			if got := d.count("gathered") - before; got > 2 {
				t.Errorf("%s: %d tasks of the Gather started before it was over", how, got)
			}
		}
		gather.Wait()
		c.CloseAndCheck(t, p)
	})
	gathered := slices.DeleteFunc(d.all(), func(s string) bool { return !strings.HasPrefix(s, "gathered") })
	for i, s := range gathered {
		if s != fmt.Sprint("gathered ", i) {
			t.Fatalf("start %d is %q: the order within the call is lost", i, s)
		}
	}
}

// A task that is retried goes before the tasks of its call that have not started yet.
func TestRetriedTaskKeepsItsPlace(t *testing.T) {
	var d diary
	e2etest.InCloud(t, sim.Options{Exec: d.exec}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{Nodes: 1})
		tasks := make([]gputrain.Task, 30)
		for i := range tasks {
			tasks[i] = gputrain.Cmd("run", "task")
		}
		tasks[3] = gputrain.Cmd("once", "task")
		tasks[3].Retries = 1
		tasks[1] = gputrain.Cmd("once", "task")
		tasks[1].Retries = 1
		if _, err := p.Gather(tasks...); err != nil {
			t.Fatal(err)
		}
		c.CloseAndCheck(t, p)
	})
	got := d.all()
	for _, index := range []int{1, 3} {
		word := fmt.Sprint("task ", index)
		first := slices.Index(got, word)
		again := first + 1 + slices.Index(got[first+1:], word)
		if again-first > 8 { // half a second is five tasks
			t.Errorf("task %d was started again %d starts later, as one of %d", index, again-first, len(got))
		}
	}
}

// The error of 1000 failed tasks shows the number and ten of the errors. errors.Is and errors.As
// find all of them.
func TestErrorOfManyTasksIsShort(t *testing.T) {
	var d diary
	e2etest.InCloud(t, sim.Options{Exec: d.exec}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{Nodes: 2, Concurrency: 8})
		tasks := make([]gputrain.Task, 1100)
		for i := range tasks {
			tasks[i] = gputrain.Cmd("fail", "task")
			if i%11 == 10 {
				tasks[i] = gputrain.Cmd("quick", "task")
			}
		}
		tasks[1098].Args[0], tasks[1098].Timeout = "run", time.Millisecond
		_, err := p.Gather(tasks...)
		lines := strings.Split(err.Error(), "\n")
		if len(lines) != 11 || lines[0] != "1000 of 1100 tasks failed (999 exit, 1 timed out); 10 of them:" || lines[1] != "task 0 on node 0: exit code 3" {
			t.Errorf("the error has %d lines:\n%v", len(lines), err)
		}
		if !errors.Is(err, gputrain.ErrTimeout) || errors.Is(err, gputrain.ErrNodeLost) {
			t.Errorf("errors.Is does not find what is in the %d", len(tasks))
		}
		var all interface{ Unwrap() []error }
		if !errors.As(err, &all) || len(all.Unwrap()) != 1000 {
			t.Errorf("not all errors are in %T", err)
		}
		failed, ok := errors.AsType[*gputrain.TaskError](err)
		if !ok || failed.Index != 0 {
			t.Errorf("errors.As found %+v", failed)
		}
		_, err = p.Gather(tasks[:3]...)
		if want := "task 0 on node 0: exit code 3\ntask 1 on node 1: exit code 3\ntask 2 on node 0: exit code 3"; err.Error() != want {
			t.Errorf("three errors are %q", err)
		}
		for i := range tasks {
			tasks[i] = gputrain.Task{}
		}
		_, err = p.Gather(tasks...)
		if lines := strings.Split(err.Error(), "\n"); len(lines) != 11 || !strings.HasPrefix(lines[0], "1100 of 1100 tasks are refused") || !errors.Is(err, gputrain.ErrInvalid) {
			t.Errorf("the error of %d mistakes has %d lines: %s", len(tasks), len(lines), lines[0])
		}
		c.CloseAndCheck(t, p)
	})
}

// Limits of results that wait for the loop of a Compute.Stream, as documented.
const (
	unreadResults = 1000
	unreadBytes   = 64 << 20
)

// A loop that does not read causes back-pressure on its stream, by the size of the results and by
// their number, and on nothing else.
func TestStreamWaitsForItsLoop(t *testing.T) {
	for what, tt := range map[string]struct {
		word  string
		tasks int
		most  int // maximum started while one result is read: those that may wait, and two for each slot
	}{
		"size":   {"mib", 300, 1 + unreadBytes>>20 + 2*8},
		"number": {"quick", 3000, 1 + unreadResults + 2*8},
	} {
		t.Run(what, func(t *testing.T) {
			var d diary
			e2etest.InCloud(t, sim.Options{Exec: d.exec}, func(t *testing.T, c *e2etest.SimCloud) {
				p := c.Pool(t, gputrain.Spec{Nodes: 2, Concurrency: 4})
				tasks := make([]gputrain.Task, tt.tasks)
				for i := range tasks {
					tasks[i] = gputrain.Cmd(tt.word, "streamed")
				}
				stream := p.Stream(tasks...)
				time.Sleep(time.Minute)
				if n := d.count("streamed"); n > 0 {
					t.Errorf("%d tasks were started before the loop began", n)
				}
				read := map[int]bool{}
				for r, err := range stream {
					if err != nil {
						t.Fatal(err)
					}
					read[r.Index] = true
					if len(read) > 1 {
						continue
					}
					time.Sleep(time.Hour)
					if n := d.count("streamed"); n > tt.most || n < tt.most-2*8 {
						t.Errorf("%d tasks were started while one result was read; %d may be", n, tt.most)
					}
					if _, err := p.Run(gputrain.Cmd("quick", "between")); err != nil {
						t.Errorf("another call: %v", err)
					}
					if size := diskUse(t, c.State); size > 100<<20 {
						t.Errorf("the state directory has %d MiB", size>>20)
					}
				}
				if len(read) != tt.tasks {
					t.Errorf("%d results of %d", len(read), tt.tasks)
				}
				c.CloseAndCheck(t, p)
			})
		})
	}
}

// A Gather has no such limit. The loop over a stream that is held back can be left.
func TestHeldStreamIsLeft(t *testing.T) {
	var d diary
	e2etest.InCloud(t, sim.Options{Exec: d.exec}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{Nodes: 2, Concurrency: 4})
		tasks := make([]gputrain.Task, 3000)
		for i := range tasks {
			tasks[i] = gputrain.Cmd("quick", "gathered")
		}
		if results, err := p.Gather(tasks...); err != nil || len(results) != len(tasks) {
			t.Fatal(err)
		}
		for i := range tasks {
			tasks[i] = gputrain.Cmd("quick", "streamed")
		}
		for range p.Stream(tasks...) {
			time.Sleep(time.Hour)
			break
		}
		if n := d.count("streamed"); n > 1+unreadResults+2*8 {
			t.Errorf("%d tasks were started", n)
		}
		c.CloseAndCheck(t, p)
	})
}

// A stream that is held back while its nodes are lost permanently still ends.
func TestHeldStreamOutlivesItsNodes(t *testing.T) {
	var d diary
	e2etest.InCloud(t, sim.Options{Exec: d.exec}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{Nodes: 1, MaxReplacements: -1})
		tasks := make([]gputrain.Task, unreadResults+200)
		for i := range tasks {
			tasks[i] = gputrain.Cmd("quick", "streamed")
		}
		done, lost := 0, 0
		for _, err := range p.Stream(tasks...) {
			switch {
			case err == nil:
				done++
			case errors.Is(err, gputrain.ErrNodeLost):
				lost++
			default:
				t.Error(err)
			}
			if done == 1 && lost == 0 {
				time.Sleep(time.Hour)
				c.Vanish(p.Nodes()[0].ID)
				e2etest.WithinVirtualTime(t, "the loss", func() bool { return p.Nodes()[0].State == gputrain.NodeLost })
			}
		}
		if done < unreadResults || lost < 100 || done+lost != len(tasks) {
			t.Errorf("%d done, %d lost", done, lost)
		}
		p.Close()
	})
}

func diskUse(t *testing.T, dir string) (size int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		size += info.Size()
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return size
}
