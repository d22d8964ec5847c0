package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/local"
)

func TestMain(m *testing.M) {
	gputrain.Init()
	m.Run()
}

// The gang fails once, goes on from its newest checkpoint, and finds the line. Which step is the first that is reported does
// not say much: steps that come fast are dropped.
func TestTrain(t *testing.T) {
	for how, try := range map[string]struct {
		task  gputrain.Task
		wants string
	}{
		"functions": {fit.Call(settings{Steps: 60, Fail: 35}), `attempt 1: failing (line/2 on node 2: a failure on purpose)
step-30 is here
attempt 2: running, from step-30
node 0: y = 3.00x -1.00
node 2: y = 3.00x -1.00`},
		"processes": {script(settings{Steps: 20, Fail: 15}), `attempt 1: failing (line/2 on node 2: exit code 1
step-20 is here`},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			out := t.TempDir()
			var w bytes.Buffer
			if err := train(t.Context(), local.Config{}, try.task, out, &w); err != nil {
				t.Fatalf("%v\n%s", err, w.String())
			}
			for want := range strings.Lines(try.wants) {
				if want = strings.TrimSpace(want); !strings.Contains(w.String(), want) {
					t.Errorf("no %q in\n%s", want, w.String())
				}
			}
			newest := filepath.Join(out, "line", "step-60")
			if how == "processes" {
				newest = filepath.Join(out, "line", "step-20")
			} else if m := regexp.MustCompile(`(?m)^attempt 2: steps (\d+) to 60 on 3 nodes$`).FindStringSubmatch(w.String()); m == nil || len(m[1]) != 2 || m[1] < "31" {
				t.Errorf("attempt 2 does not go on behind step 30:\n%s", w.String())
			}
			if files, err := os.ReadDir(newest); err != nil || len(files) != 1 || !strings.Contains(w.String(), "the newest checkpoint is "+newest+"\n") {
				t.Errorf("%v, %v; it prints\n%s", files, err, w.String())
			}
		})
	}
}
