//go:build unix

package gputrain_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/container"
	"github.com/gputrain/gputrain/providers/local"
	"github.com/gputrain/gputrain/providers/ssh"
)

// A victim is a program with a pool that is killed, or stopped for a while: what it
// does, and where it stands still. It says each event, and what its work adds.
type victim struct {
	State  string     // its state directory
	Name   string     // the pool's
	Local  string     // where its nodes are local ones: their folder
	Hosts  []ssh.Host // where they are hosts; otherwise they are containers
	Shared string     // a folder that it and its nodes have
	Work   string     // one of victimWork
	Attach bool       // to the pool, instead of opening it
	HangAt string     // a point of a frozen driver, "" for none
	Spec   gputrain.Spec
}

var victims = newRole("victim", victim.play)

func (v victim) start(t testing.TB) *child { return victims.start(t, v) }

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
	say("closed %s", kindName(err))
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
	say("%v %s %s%s", e.Kind, e.State, e.Phase, e.Name)
}

// kindName tells the kinds of an error that tests here ask for.
func kindName(err error) string {
	switch {
	case err == nil:
		return "well"
	case errors.Is(err, gputrain.ErrFenced):
		return "fenced"
	}
	return "with " + err.Error()
}

// victimWork is what a victim does with its pool.
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
		select {}
	},
	"stream": func(pool *gputrain.Compute, _ victim) {
		var tasks []gputrain.Task
		for i := range 6 {
			if i < 3 {
				tasks = append(tasks, gputrain.Script(fmt.Sprintf("echo ran >>/shared/%d; echo early %d", i, i)))
				continue
			}
			tasks = append(tasks, gateTask(fmt.Sprint("late ", i)))
		}
		for r, err := range pool.Stream(tasks...) {
			say("got %d %v", r.Index, err)
		}
	},
	"wait for some": func(pool *gputrain.Compute, _ victim) {
		for i, job := range pool.Jobs() {
			if i == 3 {
				break
			}
			r, err := job.Wait()
			say("got %d %v", r.Index, err)
		}
		select {}
	},
}

// gateTask is a task that says something once the file go is in the shared folder.
// That it ran is a line in the folder, in a file by its own name.
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

// secretTasks are three for one slot: the first one waits for the file go and fails
// then, to be tried again, and the others wait for it.
func secretTasks() []gputrain.Task {
	first := gputrain.Script(`echo try >>/shared/tries; until [ -e /shared/go ]; do sleep 0.1; done; [ "$TOKEN" = s3cr3t-of-a-$WHOSE-0451 ] || exit 9; [ $(wc -l </shared/tries) -ge 2 ] && echo "${#TOKEN}"`)
	first.Env, first.Secrets, first.Retries = map[string]string{"WHOSE": "task"}, victimSecrets, 2
	then := gputrain.Script(`echo "${#TOKEN}"`)
	then.Secrets = victimSecrets
	return []gputrain.Task{first, then, gputrain.Cmd("echo", "no secret")}
}

func sayErrors(results []gputrain.Result, err error) {
	for _, r := range results {
		say("result %d %s", r.Index, kindName(r.Err))
	}
	say("all %s", kindName(err))
}

// poolID returns the ID of the one pool in a state directory.
func poolID(t testing.TB, state string) string {
	t.Helper()
	pools, err := gputrain.StateDir(state).Pools()
	if err != nil || len(pools) != 1 {
		t.Fatalf("the state directory has %d pools, %v", len(pools), err)
	}
	return pools[0].ID
}
