package containers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/internal/test/usagetest"
	"github.com/gputrain/gputrain/observe"
)

func TestUsageSweep(t *testing.T) {
	program := usagetest.Build(t, "sweep")
	out, errOut, err := program.Run(t, nil)
	if err != nil || errOut != "" || strings.Count(out, "<nil>") != 4 || !strings.HasPrefix(out, "task 0 on node") {
		t.Errorf("%v\n%s%s", err, out, errOut)
	}
}

func TestUsageFunctions(t *testing.T) {
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: it starts several containers")
	}
	program := usagetest.Build(t, "functions")
	e2etest.NeedDocker(t)
	out, errOut, err := program.Run(t, nil)
	if err != nil || !strings.Contains(out, "6 [1 2] [node 0 of 3") {
		t.Errorf("%v\n%s%s", err, out, errOut)
	}
}

func TestUsageCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: it starts several containers")
	}
	program := usagetest.Build(t, "commands")
	e2etest.NeedDocker(t)
	os.MkdirAll(filepath.Join(program.Dir, "src"), 0o755)
	os.MkdirAll(filepath.Join(program.Dir, "data"), 0o755)
	os.WriteFile(filepath.Join(program.Dir, "data", "digits.csv"), []byte("1,2,3\n"), 0o644)
	os.WriteFile(filepath.Join(program.Dir, "src", "train.py"), []byte(`
import json, os, sys
seed = int(sys.argv[2])
rows = open("data/digits.csv").read().split(",")
os.makedirs("out", exist_ok=True)
json.dump({"seed": seed, "rows": len(rows)}, open(f"out/{seed}.json", "w"))
print("trained with seed", seed)
if seed == 5:
    sys.exit(3)
`), 0o644)
	out, errOut, err := program.Run(t, nil)
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, errOut)
	}
	for _, want := range []string{"task 7: trained with seed 7", "task 5 exit code 3", "cost so far: $0.00", "Linux"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s%s", want, out, errOut)
		}
	}
	found, _ := filepath.Glob(filepath.Join(program.Dir, "results", "*", "out", "*.json"))
	names := map[string]bool{} // a task that was retried leaves a file on each node that it ran on
	for _, f := range found {
		names[filepath.Base(f)] = true
	}
	if len(names) != 8 {
		t.Errorf("downloaded %v", found)
	}
}

func TestUsageWatch(t *testing.T) {
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: it starts several containers")
	}
	program := usagetest.Build(t, "watch")
	e2etest.NeedDocker(t)
	e2etest.WriteText(t, filepath.Join(program.Dir, "data", "digits.csv"), "1,2,3\n")
	out, errOut, err := program.Run(t, nil)
	if err != nil || !strings.HasPrefix(out, "status: http://127.0.0.1:") || strings.Count(out, " <nil>\n") != 16 {
		t.Fatalf("%v\n%s%s", err, out, errOut)
	}
	for _, want := range []string{"task 15", "digits"} {
		if !strings.Contains(errOut, want) {
			t.Errorf("the console lacks %q:\n%s", want, errOut)
		}
	}
	run, err := observe.Read(filepath.Join(program.Dir, "runs", "digits.events"))
	if err != nil || len(run.Pools) != 1 || run.Pools[0].State != "closed" || len(run.Tasks) != 16 || len(run.Nodes) != 4 {
		t.Fatalf("the file of events has %+v, %v", run, err)
	}
	if page := e2etest.ReadText(t, filepath.Join(program.Dir, "digits.html")); !strings.Contains(page, run.Pools[0].ID) {
		t.Errorf("the report does not name pool %s:\n%s", run.Pools[0].ID, page)
	}
	if _, err := os.Stat(filepath.Join(program.Dir, "digits-failure.zip")); !os.IsNotExist(err) {
		t.Errorf("nothing failed, and there is a bundle: %v\n%+v", err, run.Failures)
	}
	e2etest.WantNothingOf(t, run.Pools[0].ID)
}
