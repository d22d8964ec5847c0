package observe

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
)

// What a node, or an honest program with long lines, can have recorded.
func floodsOf(begun time.Time) map[string]func(i int) Entry {
	at := func(i int) time.Time { return begun.Add(time.Duration(i) * time.Millisecond) }
	event := func(i int, ev gputrain.Event) Entry {
		ev.Time, ev.Pool = at(i), "p"
		return Entry{Event: &ev}
	}
	values := map[string]float64{}
	for v := range 64 {
		values[fmt.Sprint(strings.Repeat("v", 60), v)] = 1
	}
	return map[string]func(i int) Entry{
		"long lines": func(i int) Entry {
			return Entry{Line: &gputrain.Line{Time: at(i), Pool: "p", Node: 0, Task: fmt.Sprint("t", i%5), Text: strings.Repeat("x", 64<<10)}}
		},
		"lines": func(i int) Entry {
			return Entry{Line: &gputrain.Line{Time: at(i), Pool: "p", Node: 0, Phase: "setup", Text: strings.Repeat("x", 3000)}}
		},
		"lines of no one": func(i int) Entry {
			return Entry{Line: &gputrain.Line{Time: at(i), Pool: "q", Node: -1, Text: strings.Repeat("x", 10_000)}}
		},
		"samples": func(i int) Entry {
			return event(i, gputrain.Event{Kind: gputrain.EventUsage, State: "sample", Usage: gputrain.Usage{Accelerators: make([]gputrain.AcceleratorSample, 100)}})
		},
		"faults": func(i int) Entry {
			return event(i, gputrain.Event{Kind: gputrain.EventUsage, State: "fault", Err: errors.New(strings.Repeat("broken ", 10_000))})
		},
		"failures": func(i int) Entry {
			return event(i, gputrain.Event{Kind: gputrain.EventTask, State: "failed", Task: fmt.Sprint(i), Err: &gputrain.TaskError{Stack: strings.Repeat("at ", 30_000)}})
		},
		"steps": func(i int) Entry {
			return event(i, gputrain.Event{Kind: gputrain.EventStep, Task: "t1", Step: gputrain.Step{N: int64(i), Values: values}})
		},
		"too long": func(i int) Entry {
			if i%300 != 0 {
				return event(i, gputrain.Event{Kind: gputrain.EventNode, State: "ready", At: gputrain.Node{ID: "i"}})
			}
			return event(i, gputrain.Event{Kind: gputrain.EventTask, State: "failed", Task: fmt.Sprint(i), Err: &gputrain.TaskError{Stack: strings.Repeat("x", maxEntry)}})
		},
	}
}

// Whatever is recorded, a recorder and its file have no more than they may. Old lines go first, and what was left out is counted.
func TestRecorderIsBounded(t *testing.T) {
	for name, flood := range floodsOf(time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)) {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "events")
			rec, err := New(Config{File: file, MemoryBytes: leastBytes, FileBytes: leastBytes})
			if err != nil {
				t.Fatal(err)
			}
			add := func(ev gputrain.Event) {
				ev.Time, ev.Pool = time.Date(2026, 11, 27, 11, 0, 0, 0, time.UTC), "p"
				rec.add(Entry{Event: &ev})
			}
			add(gputrain.Event{Kind: gputrain.EventPool, State: "opening", Node: -1, Spec: &gputrain.Spec{}})
			add(gputrain.Event{Kind: gputrain.EventNode, State: "ready", At: gputrain.Node{ID: "i"}})
			add(gputrain.Event{Kind: gputrain.EventPhase, State: "started", Phase: "setup"})
			for i := range 5 {
				add(gputrain.Event{Kind: gputrain.EventTask, State: "started", Task: fmt.Sprint("t", i)})
			}
			const before, many = 8, 600
			var stats runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&stats)
			heap := int64(stats.HeapAlloc)
			for i := range many {
				rec.add(flood(i))
				if i%100 == 0 || i == many-1 {
					rec.file.flush()
					if info, err := os.Stat(file); err != nil || info.Size() > leastBytes {
						t.Fatalf("after %d entries the file has %d bytes, %v", i, info.Size(), err)
					}
				}
			}
			run := rec.Run()
			if err := rec.Close(); err != nil {
				t.Fatal(err)
			}
			runtime.GC()
			runtime.GC() // what pools have kept
			runtime.ReadMemStats(&stats)
			// Of failures 1000 are kept, or twice as many for a while, and their texts have bounds of their own.
			if grown := int64(stats.HeapAlloc) - heap; grown > 8*leastBytes+int64(len(run.Failures))*2*3*mostText {
				t.Errorf("the heap has grown by %d KiB", grown>>10)
			}
			lines := 0
			for _, task := range run.Tasks {
				for _, l := range task.Lines {
					lines += len(l.Text)
				}
			}
			for _, phase := range run.Phases {
				for _, l := range phase.Lines {
					lines += len(l.Text)
				}
			}
			if lines > leastBytes || strings.HasPrefix(name, "long") && (lines == 0 || run.Omitted == 0) {
				t.Errorf("%d bytes of lines, %d left out", lines, run.Omitted)
			}
			var seqs []int64
			omitted := 0
			err = entries(file, func(e Entry) bool {
				if e.Line != nil && e.Line.Omitted > 0 {
					omitted += e.Line.Omitted
					return true
				}
				seqs = append(seqs, e.Seq)
				return true
			})
			if err != nil || len(seqs)+omitted+rec.file.left != before+many || omitted == 0 && name != "too long" || seqs[0] != 1 {
				t.Errorf("%v: %d entries and %d left out of %d", err, len(seqs), omitted, before+many)
			}
			read, err := Read(file)
			if err != nil || read.Omitted < omitted || len(read.Pools) == 0 || read.Pools[0].Spec == nil {
				t.Errorf("%v: %d omitted, %v", err, read.Omitted, read.Pools)
			}
			if strings.Contains(name, "lines") && (len(read.Nodes) != 1 || len(read.Tasks) != 5 || seqs[before-1] != before) {
				t.Errorf("lines have driven out events: %v", seqs[:before])
			}
			if last := seqs[len(seqs)-1]; last != before+many {
				t.Errorf("the last entry is %d", last)
			}
		})
	}
}

// Events of a pool in the middle of which entries are gone: their numbers show it.
func TestEventsOfAShorterFile(t *testing.T) {
	rec, err := New(Config{File: filepath.Join(t.TempDir(), "events"), MemoryBytes: leastBytes, FileBytes: leastBytes})
	if err != nil {
		t.Fatal(err)
	}
	flood := floodsOf(time.Now())["long lines"]
	for i := range 500 {
		rec.add(flood(i))
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	before, n := int64(0), 0
	for e := range rec.Events(t.Context(), 0) {
		if e.Seq <= before {
			t.Fatalf("entry %d comes after %d", e.Seq, before)
		}
		before = e.Seq
		n++
	}
	if before != 500 || n < 5 || n > 40 {
		t.Errorf("%d entries, the last is %d", n, before)
	}
}

// An entry's class is known from the beginning of its line, whatever texts are in it.
func TestClassOf(t *testing.T) {
	forged := `"kind":"pool"`
	for want, e := range map[class]Entry{
		ofLines:    {Line: &gputrain.Line{Pool: forged, Text: forged}},
		ofMeasures: {Event: &gputrain.Event{Kind: gputrain.EventStep, State: forged, Name: forged}},
		ofChanges:  {Event: &gputrain.Event{Kind: gputrain.EventTask, State: forged, Name: forged, Path: forged}},
		ofPools:    {Event: &gputrain.Event{Kind: gputrain.EventPool}},
	} {
		line, err := encode(e)
		if got := classOf(line); err != nil || got != want {
			t.Errorf("%s: %d, want %d, %v", line, got, want, err)
		}
	}
}
