package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/observe"
)

// recorded opens a pool whose events are in a file.
func recorded(t *testing.T, nodes int) (*gputrain.Compute, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "run.events")
	rec, err := observe.New(observe.Config{File: file})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rec.Close() })
	return open(t, newPlace(t), nodes, rec.Option()), file
}

// A living program's pool is shown by the file that it writes, which does nothing to it.
func TestFileOfLivingProgram(t *testing.T) {
	pool, file := recorded(t, 2)
	gate, end := filepath.Join(t.TempDir(), "go"), filepath.Join(t.TempDir(), "end")
	wait := func(file string) string { return `while [ ! -e "` + file + `" ]; do sleep 0.05; done; ` }
	task := gputrain.Script(`echo first; echo wrong >&2; ` + wait(gate) + `printf 'last \033[2Jline\n'; ` + wait(end))
	task.Name = "work"
	job := pool.Start(task)
	waitFor(t, "the task", func() bool { return strings.Contains(pools(t, "jobs", file).out, "started") })

	pools(t, "nodes", file).wants(t, 0, `^RANK +STATE +TYPE +REGION +PRICE +AGE +SPENT +DOES\n(0 +ready .*\$0\.00/h.*work\n1 +ready.*\n|0 +ready.*\n1 +ready.*work\n)$`, "^$")
	nodes := decode[[]nodeView](t, pools(t, "nodes", file, "-json"))
	if len(nodes) != 2 || nodes[0].Rank == nil || *nodes[0].Rank != 0 || len(nodes[0].Tasks)+len(nodes[1].Tasks) != 1 {
		t.Errorf("%+v", nodes)
	}
	pools(t, "cost", file).wants(t, 0, `^pool `+pool.ID()+`, as of .*: \$0\.00 spent, \$0\.00/h, at most \$0\.00 if its program dies now\nRANK`, "^$")
	if c := decode[costView](t, pools(t, "cost", file, "-json")); c.Pool != pool.ID() || c.AtMost == nil || len(c.Nodes) != 2 {
		t.Errorf("%+v", c)
	}
	pools(t, "jobs", file).wants(t, 0, `(?m)^`+job.ID()+` +work +started +[01] +1 +`, "^$")
	if jobs := decode[[]jobView](t, pools(t, "jobs", file, "-json")); len(jobs) != 1 || jobs[0].ID != job.ID() || jobs[0].Name != "work" || jobs[0].Node == nil {
		t.Errorf("%+v", jobs)
	}
	waitFor(t, "the first lines", func() bool { return pools(t, "logs", file, "work", "-follow=false").out == "first\n" })
	pools(t, "logs", file, "none", "-follow=false").wants(t, 1, "^$", `has no task "none"; "pools jobs`)
	pools(t, "watch", file, "-page").wants(t, 2, "^$", "status.Serve")
	pools(t, "shell", file, "0").wants(t, 2, "^$", "is a file")

	followed, watched := make(chan printed), make(chan printed)
	go func() { followed <- pools(t, "logs", file, job.ID()) }()
	go func() { watched <- pools(t, "watch", file) }()
	time.Sleep(100 * time.Millisecond) // so that they are likely to wait; they say the same if not
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the last line", func() bool { return strings.Contains(pools(t, "logs", file, "work", "-follow=false").out, "last") })
	if err := os.WriteFile(end, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	(<-followed).wants(t, 0, `^first\nlast (\[2J)?line\n$`, "^wrong\n$")
	if _, err := job.Wait(); err != nil {
		t.Error(err)
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	(<-watched).wants(t, 0, `(?m)closed; nodes: 0 ready, 0 starting, 0 broken, 2 gone; tasks: 0 waiting, 0 running, 1 done, 0 failed, 0 cancelled; \$0\.00 spent\n$`, "^$")
	pools(t, "logs", file, "none").wants(t, 1, "^$", "its pool has ended")
	pools(t, "jobs", file).wants(t, 0, `work +done`, "^$")
	lines := strings.Split(strings.TrimSpace(pools(t, "watch", file, "-json").out), "\n")
	var v runView
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &v); err != nil || v.States[0] != "closed" || v.Counts.Done != 1 {
		t.Errorf("%v, %+v", err, v)
	}
	if s := pools(t, "logs", file, "work", "-json"); !strings.Contains(s.out, `"stderr":true,"text":"wrong"`) || s.err != "" {
		t.Errorf("%+v", s)
	}
}

// The file of a program that was killed never says that its pool has ended: watching and following end by Ctrl-C.
func TestFileOfKilledProgram(t *testing.T) {
	p := newPlace(t)
	file := filepath.Join(t.TempDir(), "run.events")
	_, kill := victim{State: p.state, Nodes: p.nodes, Name: "lost", File: file, Scripts: map[string]string{"work": "echo begun; sleep 60"}}.start(t)
	waitFor(t, "the line", func() bool { return strings.Contains(pools(t, "logs", file, "work", "-follow=false").out, "begun") })
	waitFor(t, "the task", func() bool { return strings.Contains(pools(t, "jobs", file).out, "started") })
	kill()
	for _, args := range [][]string{{"watch", file}, {"logs", file, "work"}} {
		want := map[string]string{"watch": "1 running", "logs": "begun"}[args[0]]
		interrupted(t, want, args...).wants(t, 0, want, "")
	}
	pools(t, "end", "pool", "lost", "-yes", "-state", p.state, "-provider", p.provider()).wants(t, 0, "ended local machine", "^$")
}

func TestFileOfSomethingElse(t *testing.T) {
	file := filepath.Join(t.TempDir(), "notes")
	if err := os.WriteFile(file, []byte("notes\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"nodes", "cost", "jobs", "watch", "logs"} {
		args := []string{line, file}
		if line == "logs" {
			args = append(args, "x")
		}
		pools(t, args...).wants(t, 1, "^$", "is not a file of events")
	}
}

// The nodes that a screen has no room for are counted.
func TestScreen(t *testing.T) {
	var out bytes.Buffer
	s := &session{app: &app{out: &out}, args: []string{"run.events"}}
	run := observe.Run{Pools: []observe.Pool{{ID: "p-1", State: "ready"}}, Bounded: true}
	for rank := range 200 {
		run.Nodes = append(run.Nodes, observe.Node{Node: gputrain.Node{Rank: rank}, State: "ready"})
	}
	if err := printScreen(s, run, 24); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n"); n > 23 || !strings.Contains(out.String(), "and 184 more nodes\n") || !strings.Contains(out.String(), "unknown") {
		t.Errorf("%d lines:\n%s", n, out.String())
	}
}

// Each attempt's output begins with its number, and has it in JSON.
func TestLogsOfEachAttempt(t *testing.T) {
	pool, file := recorded(t, 1)
	task := gputrain.Script(`echo "try $GPUTRAIN_ATTEMPT"; [ $GPUTRAIN_ATTEMPT = 2 ]`)
	task.Name, task.Retries = "again", 1
	if _, err := pool.Run(task); err != nil {
		t.Fatal(err)
	}
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
	pools(t, "logs", file, "again").wants(t, 0, "^try 1\ntry 2\n$", "^--- attempt 2 of t0\n$")
	if s := pools(t, "logs", file, "again", "-json"); !strings.Contains(s.out, `"attempt":1,"text":"try 1"`) || !strings.Contains(s.out, `"attempt":2,"text":"try 2"`) || s.err != "" {
		t.Errorf("%+v", s)
	}
}
