package report

import (
	"encoding/json"
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/observe"
)

var update = flag.Bool("update", false, "write the golden files")

// written returns what a function writes.
func written(t *testing.T, write func(string, observe.Run) error, run observe.Run) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report")
	if err := write(path, run); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestGolden(t *testing.T) {
	for name, write := range map[string]func(string, observe.Run) error{"sample.md": WriteMarkdown, "sample.json": WriteJSON} {
		run := sampleRun()
		if name == "sample.json" {
			run.Pools[0].Spec = nil // it has all fields of gputrain.Spec, which are others' matter
		}
		got := written(t, write, run)
		golden := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s differs; look at it, and then run the test with -update. It is now:\n%s", golden, got)
		}
	}
}

func TestJSONOfOddNumbers(t *testing.T) {
	run := sampleRun()
	nan := math.NaN()
	run.SpentUSD, run.HourlyUSD = nan, math.Inf(1)
	run.Nodes[0].Usage = []gputrain.AcceleratorSample{{Device: "0", Utilization: 12, Watts: nan}}
	run.Nodes[0].Load = []observe.Load{{At: t0, Accelerators: -1, CPU: nan}}
	run.Tasks[0].Step, run.Tasks[0].StepAt, run.Tasks[0].Elapsed = gputrain.Step{N: 3, Values: map[string]float64{"loss": nan}}, t0, 90*time.Second
	var got struct {
		Version                        int
		SpentUSD, HourlyUSD, AtMostUSD *float64
		Pools                          []struct{ Spec map[string]any }
		Nodes                          []struct {
			Usage []struct{ Utilization, Watts *float64 }
			Load  []struct{ Accelerators, CPU *float64 }
		}
		Tasks []struct {
			ElapsedSeconds float64
			Step           struct{ Values map[string]*float64 }
		}
	}
	text := written(t, WriteJSON, run)
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	usage, load, step := got.Nodes[0].Usage[0], got.Nodes[0].Load[0], got.Tasks[0].Step
	if got.Version != 1 || got.SpentUSD != nil || got.HourlyUSD != nil || got.AtMostUSD == nil || *usage.Utilization != 12 || usage.Watts != nil || load.Accelerators != nil || load.CPU != nil ||
		got.Tasks[0].ElapsedSeconds != 90 || step.Values["loss"] != nil || len(step.Values) != 1 {
		t.Errorf("%+v", got)
	}
	if spec := got.Pools[0].Spec; spec["budgetUSD"] != 2.0 || spec["secretNames"].([]any)[0] != "HF_TOKEN" || strings.Contains(text, "thisisthesecretvalue") {
		t.Errorf("%v", spec)
	}
}

func TestFilesThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	for name, write := range map[string]func(string, observe.Run) error{"HTML": WriteHTML, "Markdown": WriteMarkdown, "JSON": WriteJSON} {
		path := filepath.Join(dir, "no such folder", "report")
		err := write(path, sampleRun())
		if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "name a file in a folder that is there") {
			t.Errorf("%s: %v", name, err)
		}
		if err := write(dir, sampleRun()); err == nil { // it is a folder
			t.Errorf("%s: a folder was replaced", name)
		}
	}
	if left, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(left) != 1 {
		t.Errorf("%v is left, %v", left, err)
	}
}

func TestFilesAreReplacedAndPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.md")
	if err := os.WriteFile(path, []byte("earlier"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := WriteMarkdown(path, sampleRun()); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 && runtime.GOOS != "windows" {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if text, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(text), "# gputrain report") {
		t.Errorf("%q, %v", text, err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("%v is left, %v", left, err)
	}
}
