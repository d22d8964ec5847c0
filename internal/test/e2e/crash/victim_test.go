//go:build unix

package crash

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/container"
	"github.com/gputrain/gputrain/providers/local"
	"github.com/gputrain/gputrain/providers/ssh"
)

// A victim is a program with a pool that is killed, or stopped for a while. It has some work, and may stop at a certain
// point. It reports its events and its work's messages.
type victim struct {
	State  string     // the program's state directory
	Name   string     // the pool's name
	Local  string     // the folder of its nodes, if they are local
	Hosts  []ssh.Host // its hosts, if any; without Local and Hosts, nodes are containers
	Shared string     // a folder that the program shares with its nodes
	Work   string     // a key of victimWork
	Attach bool       // attach to the pool instead of opening it
	HangAt string     // the point at which a frozen driver stops, or ""
	Spec   gputrain.Spec
}

var victims = e2etest.NewRole("victim", victim.play)

func (v victim) start(t testing.TB) *e2etest.Child { return victims.Start(t, v) }

func (v victim) play() error {
	opts := []gputrain.Option{gputrain.WithStateDir(v.State), gputrain.WithEvents(sayEvent)}
	var pool *gputrain.Compute
	var err error
	if v.Attach {
		pool, err = gputrain.Attach(context.Background(), v.provider(), v.Name, append(opts, gputrain.WithSecrets(victimSecrets))...)
	} else {
		pool, err = gputrain.Open(context.Background(), v.provider(), v.Spec, append(opts, gputrain.WithName(v.Name))...)
	}
	if err != nil {
		return err
	}
	victimWork[v.Work](pool, v)
	err = pool.Close()
	e2etest.Say("closed %s", kindName(err))
	return nil
}

func (v victim) provider() gputrain.Provider {
	switch {
	case v.Local != "":
		return local.Config{Dir: v.Local}
	case v.Hosts != nil:
		return ssh.Config{Hosts: v.Hosts}
	}
	return frozen{container.Config{}, v.HangAt}
}

func sayEvent(e gputrain.Event) {
	e2etest.Say("%v %s %s%s", e.Kind, e.State, e.Phase, e.Name)
}

// kindName returns a word for the kind of an error that these tests check.
func kindName(err error) string {
	switch {
	case err == nil:
		return "well"
	case errors.Is(err, gputrain.ErrFenced):
		return "fenced"
	}
	return "with " + err.Error()
}

// victimWork has the works that a victim can do with its pool.
var victimWork = map[string]func(*gputrain.Compute, victim){
	"nothing": func(*gputrain.Compute, victim) {},
	"stand":   func(*gputrain.Compute, victim) { select {} },
	"sleep": func(pool *gputrain.Compute, _ victim) {
		pool.Broadcast(gputrain.Cmd("sleep", "600"))
	},
	"gather":    gatherOfEverything,
	"secrets":   func(pool *gputrain.Compute, _ victim) { sayErrors(pool.Gather(secretTasks()...)) },
	"broadcast": func(pool *gputrain.Compute, _ victim) { sayErrors(pool.Broadcast(gateTask("rank $GPUTRAIN_RANK"))) },
	"jobs": func(pool *gputrain.Compute, _ victim) {
		for i := range 6 {
			pool.Start(gateTask(fmt.Sprint("job ", i)))
		}
		e2etest.Say("all started")
		select {}
	},
	"stream": func(pool *gputrain.Compute, _ victim) {
		var tasks []gputrain.Task
		for i := range 6 {
			if i < 4 {
				tasks = append(tasks, gputrain.Script(fmt.Sprintf("echo ran >>/shared/%d; echo early %d", i, i)))
				continue
			}
			tasks = append(tasks, gateTask(fmt.Sprint("late ", i)))
		}
		for r, err := range pool.Stream(tasks...) {
			e2etest.Say("got %d %v", r.Index, err)
			if r.Index == 3 {
				select {} // before the stream knows that this one was taken
			}
		}
	},
	"wait for some": func(pool *gputrain.Compute, _ victim) {
		for i, job := range pool.Jobs() {
			if i == 3 {
				break
			}
			r, err := job.Wait()
			e2etest.Say("got %d %v", r.Index, err)
		}
		select {}
	},
}

// gateTask returns a task that prints a line at its start and another one once the file go is in the shared folder.
// Each run adds a line to a file of the task's name in that folder.
func gateTask(what string) gputrain.Task {
	return gputrain.Script(fmt.Sprintf(`echo ran >>"/shared/%s"; echo "begin %s"; until [ -e /shared/go ]; do sleep 0.1; done; echo "end %s"`, what, what, what))
}

func gatherOfEverything(pool *gputrain.Compute, v victim) {
	withInput := gputrain.Script(`cat >/shared/input; until [ -e /shared/go ]; do sleep 0.1; done; cat /shared/input`)
	withInput.Stdin = []byte("what it reads\n")
	withOutputs := gputrain.Script(`until [ -e /shared/go ]; do sleep 0.1; done; echo made >made.txt; mkdir -p "$GPUTRAIN_SCRATCH/deep"; echo deep >"$GPUTRAIN_SCRATCH/deep/file"`)
	withOutputs.Outputs = []string{"made.txt", "deep/*"}
	retried := gputrain.Script(`echo try >>/shared/tries; until [ -e /shared/go ]; do sleep 0.1; done; [ $(wc -l </shared/tries) -ge 3 ] && echo "third time"`)
	retried.Retries = 3
	done := withOutputs
	done.Script = `echo early >early.txt`
	done.Outputs = []string{"early.txt"}
	var waiting []gputrain.Task // these wait for a slot
	for _, t := range []gputrain.Task{withInput, withOutputs} {
		t.Script = strings.ReplaceAll(strings.ReplaceAll(t.Script, "/shared/input", "/shared/input2"), "made", "later")
		if t.Outputs != nil {
			t.Outputs = []string{"later.txt", "deep/*"}
		}
		waiting = append(waiting, t)
	}
	sayErrors(pool.Gather(append([]gputrain.Task{done, withInput, withOutputs, retried}, waiting...)...))
}

var victimSecrets = map[string]gputrain.Secret{"TOKEN": "s3cr3t-of-a-task-0451"}

// secretTasks returns three tasks for one slot. The first one waits for the file go, and then fails and is retried. The
// others wait for it.
func secretTasks() []gputrain.Task {
	first := gputrain.Script(`echo try >>/shared/tries; until [ -e /shared/go ]; do sleep 0.1; done; [ "$TOKEN" = s3cr3t-of-a-$WHOSE-0451 ] || exit 9; [ $(wc -l </shared/tries) -ge 2 ] && echo "${#TOKEN}"`)
	first.Env, first.Secrets, first.Retries = map[string]string{"WHOSE": "task"}, victimSecrets, 2
	then := gputrain.Script(`echo "${#TOKEN}"`)
	then.Secrets = victimSecrets
	return []gputrain.Task{first, then, gputrain.Cmd("echo", "no secret")}
}

func sayErrors(results []gputrain.Result, err error) {
	for _, r := range results {
		e2etest.Say("result %d %s", r.Index, kindName(r.Err))
	}
	e2etest.Say("all %s", kindName(err))
}

// poolID returns the ID of the only pool in a state directory.
func poolID(t testing.TB, state string) string {
	t.Helper()
	pools, err := gputrain.StateDir(state).Pools()
	if err != nil || len(pools) != 1 {
		t.Fatalf("the state directory has %d pools, %v", len(pools), err)
	}
	return pools[0].ID
}
