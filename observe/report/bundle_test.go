package report

import (
	"archive/zip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/observe"
)

// A fakeRecorder has a run, and one event for each number.
type fakeRecorder struct {
	run   observe.Run
	event func(seq int64) observe.Entry
	// first is the first that is kept, and last the last that comes; 0 is all of them.
	first, last int64
}

func (r *fakeRecorder) Run() observe.Run { return r.run }

func (r *fakeRecorder) Events(ctx context.Context, after int64) iter.Seq[observe.Entry] {
	return func(yield func(observe.Entry) bool) {
		for seq := max(after+1, r.first); ctx.Err() == nil && (r.last == 0 || seq <= r.last); seq++ {
			if !yield(r.event(seq)) {
				return
			}
		}
		<-ctx.Done() // as a recorder that waits for more
	}
}

func lineEntry(text string) func(int64) observe.Entry {
	return func(seq int64) observe.Entry {
		return observe.Entry{Seq: seq, Line: &gputrain.Line{Time: t0, Pool: pool, Task: "3", Text: fmt.Sprintf(text, seq)}}
	}
}

func noLedgers() ([]gputrain.PoolRecord, error) { return nil, nil }

func bundleOf(run observe.Run) *bundle {
	return &bundle{recorder: &fakeRecorder{run: run, event: lineEntry("line %d")}, limits: bundleLimits, environ: environ, ledgers: noLedgers}
}

// files writes a bundle, and returns its files in order.
func files(t *testing.T, b *bundle) (names []string, texts map[string]string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bundle.zip")
	if err := b.write(context.Background(), path); err != nil {
		t.Fatal(err)
	}
	return unzip(t, path)
}

func unzip(t *testing.T, path string) (names []string, texts map[string]string) {
	t.Helper()
	r, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	texts = map[string]string{}
	for _, f := range r.File {
		in, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		if err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		if _, twice := texts[f.Name]; twice {
			t.Errorf("%s is there twice", f.Name)
		}
		names, texts[f.Name] = append(names, f.Name), string(text)
	}
	return names, texts
}

func TestBundle(t *testing.T) {
	names, texts := files(t, bundleOf(sampleRun()))
	if names[0] != "CAUSE.txt" || names[len(names)-1] != "MISSING.txt" {
		t.Errorf("%q", names)
	}
	for name, want := range map[string]string{
		"CAUSE.txt": "task 3 (train 3) on node 0: exit code 3", "report.html": "Timeline", "run.json": `"version":1`, "spec.json": "HF_TOKEN", "versions.txt": "go1.",
		"tasks/3/task.json": `"exitCode": 3`, "tasks/3/stdout.txt": "loading\n", "tasks/3/stderr.txt": "ValueError: shapes do not match\n",
		"MISSING.txt": "no pool was given", "ledger.json": "[]",
	} {
		if !strings.Contains(texts[name], want) {
			t.Errorf("%s lacks %q: %.300q", name, want, texts[name])
		}
	}
	folder := nodeFolder(key(2), 2)
	if !strings.Contains(texts[folder+"/phase-python.txt"], "phase python of 2") || !strings.Contains(texts[folder+"/node.json"], `"state": "lost"`) {
		t.Errorf("%q lacks the node that was lost", names)
	}
	if n := strings.Count(texts["events.jsonl"], "\n"); n != 4321 {
		t.Errorf("there are %d events", n)
	}
	for line := range strings.Lines(texts["events.jsonl"]) {
		var e observe.Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Line == nil {
			t.Fatalf("%q: %v", line, err)
		}
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".json") && !json.Valid([]byte(texts[name])) {
			t.Errorf("%s is no JSON: %.300q", name, texts[name])
		}
	}
	for word := range strings.FieldsSeq(strings.NewReplacer(",", " ", ".\n", " ").Replace(texts["CAUSE.txt"][strings.Index(texts["CAUSE.txt"], "Look at:"):])) {
		if strings.HasSuffix(word, "/") && !slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, word) }) {
			t.Errorf("CAUSE.txt refers to %s, which is not in %q", word, names)
		}
	}
}

// Whatever a run ended with, the bundle says it first, without a pool.
func TestCauses(t *testing.T) {
	failure := func(f observe.Failure) observe.Failure {
		f.Pool, f.At = pool, at(5*time.Minute)
		if f.Task != "" {
			f.Name, f.Rank, f.Node = "train", 1, key(1)
		}
		return f
	}
	task := func(cause, err string, f observe.Failure) []observe.Failure {
		f.Kind, f.Task, f.Cause, f.Err, f.Attempt = "task", "7", cause, err, 1
		return []observe.Failure{failure(f)}
	}
	echo := failure(observe.Failure{Kind: "task", Task: "8", Cause: "cancelled", Err: "a critical task of the call has failed"})
	for name, tt := range map[string]struct {
		failures []observe.Failure
		want     []string // of CAUSE.txt
		file     string   // of the bundle
		has      string
	}{
		"exit code":           {task("exit", "train: exit code 3", observe.Failure{Tail: "ValueError: boom"}), []string{"task 7 (train) on node 1: exit code 3", "stderr"}, "tasks/7/stderr.txt", "ValueError: boom"},
		"a full GPU":          {task("exit", "train: exit code 3", observe.Failure{Tail: "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1024.00 MiB."}), []string{"exit code 3", "Next: the GPU's memory is full"}, "tasks/7/stderr.txt", "CUDA out of memory"},
		"panic":               {task("panic", "train: panic: index out of range", observe.Failure{Stack: "main.train(...)\n\tmain.go:42"}), []string{"panic: index out of range", "read the stack"}, "tasks/7/stack.txt", "main.go:42"},
		"out of memory":       {task("out of memory", "train: out of memory", observe.Failure{}), []string{": out of memory", "Spec.MemoryGiB"}, "tasks/7/task.json", `"id": "7"`},
		"stall":               {task("stalled", "train: stalled for 5m0s", observe.Failure{Stack: "thread 1: futex_wait"}), []string{"stalled for 5m0s", "read the stacks"}, "tasks/7/stack.txt", "futex_wait"},
		"an echo comes first": {append([]observe.Failure{echo}, task("exit", "train: exit code 3", observe.Failure{})...), []string{"Failed first: task 7"}, "tasks/7/task.json", `"id": "7"`},
		"lost node": {
			append([]observe.Failure{failure(observe.Failure{Kind: "node", Node: key(1), Rank: 1, Err: "node 1: lost: no answer for 3m0s"})}, task("node lost", "train on node 1: lost", observe.Failure{})...),
			[]string{"task 7 (train) on node 1: node lost", "It followed from: node 1", "no answer for 3m0s", nodeFolder(key(1), 1)}, nodeFolder(key(1), 1) + "/node.json", `"rank": 1`,
		},
		"refused launch": {
			[]observe.Failure{failure(observe.Failure{Kind: "offer", Rank: -1, Err: "acme: quota: 0 of 8 vCPUs"}), failure(observe.Failure{Kind: "pool", Rank: -1, Err: "open: no offer has room"})},
			[]string{"Failed first: pool", "no offer has room", "It followed from: offer", "0 of 8 vCPUs", "ask for quota"}, "run.json", "0 of 8 vCPUs",
		},
		"bootstrap": {
			[]observe.Failure{failure(observe.Failure{Kind: "phase", Phase: "setup 1/2", Node: key(1), Rank: 1, Err: "setup 1/2: exit code 100"}), failure(observe.Failure{Kind: "pool", Rank: -1, Err: "open: no node came up"})},
			[]string{"It followed from: phase setup 1/2 on node 1", "exit code 100"}, nodeFolder(key(1), 1) + "/phase-" + fileName("setup 1/2") + ".txt", "apt: no such package",
		},
		"a pool that did not open": {
			[]observe.Failure{failure(observe.Failure{Kind: "node", Node: key(2), Rank: 2, Err: "bootstrap of node 2: setup 1/2: exit code 9"})},
			[]string{"Failed first: node 2, in phase setup 1/2", "Last line that it printed: apt: no such package", "read the last lines of the phase"}, nodeFolder(key(2), 2) + "/phase-" + fileName("setup 1/2") + ".txt", "apt: no such package",
		},
		"repaired": {[]observe.Failure{failure(observe.Failure{Kind: "node", Node: key(1), Rank: 1, Err: "node 1: lost"})}, []string{"Nothing failed for good", "node 1: lost"}, "run.json", "node 1: lost"},
		"nothing":  {nil, []string{"No failure is recorded.", "report.html"}, "report.html", "No failure is recorded."},
	} {
		t.Run(name, func(t *testing.T) {
			run := observe.Run{
				Began: t0, At: at(10 * time.Minute), Failures: tt.failures, Pools: []observe.Pool{{ID: pool}},
				Nodes:  []observe.Node{{Node: gputrain.Node{Rank: 1}, Key: key(1), Pool: pool, State: "ready"}},
				Tasks:  []observe.Task{{Pool: pool, ID: "7", Name: "train", State: "failed", Node: key(1), ExitCode: 3}},
				Phases: []observe.Phase{{Pool: pool, Node: key(1), Rank: 1, Name: "setup 1/2", State: "failed", Lines: printedLines(true, "apt: no such package")}},
			}
			if tt.failures == nil {
				run.Tasks = nil
			}
			if name == "a pool that did not open" {
				run.Pools[0].State = "closed"
				run.Nodes = append(run.Nodes, observe.Node{Node: gputrain.Node{Rank: 2}, Key: key(2), Pool: pool, State: "failed"})
				run.Phases = append(run.Phases, run.Phases[0])
				run.Phases[1].Node, run.Phases[1].Rank = key(2), 2
			}
			_, texts := files(t, bundleOf(run))
			cause := texts["CAUSE.txt"]
			for _, want := range tt.want {
				if !strings.Contains(cause, want) {
					t.Errorf("CAUSE.txt lacks %q:\n%s", want, cause)
				}
			}
			if n := strings.Count(cause, "\n"); n < 3 || n > 10 {
				t.Errorf("CAUSE.txt has %d lines:\n%s", n, cause)
			}
			if !strings.Contains(texts[tt.file], tt.has) {
				t.Errorf("%s lacks %q: %.300q of %q", tt.file, tt.has, texts[tt.file], slices.Sorted(maps.Keys(texts)))
			}
		})
	}
}

func TestBundleHasNoSecretsAndNoControls(t *testing.T) {
	run := hostileRun()
	planted := []string{"token is hunter2-hunter2", "password=swordfish1", "Authorization: Bearer abcDEF123456", strings.TrimSpace(keyText)}
	for i := range run.Tasks {
		for _, text := range planted {
			for line := range strings.SplitSeq(text, "\n") {
				run.Tasks[i].Lines = append(run.Tasks[i].Lines, gputrain.Line{Text: line})
			}
		}
		run.Tasks[i].Err += strings.Join(planted, "\n")
	}
	for i := range run.Failures {
		run.Failures[i].Err += strings.Join(planted, "\n")
		run.Failures[i].Stack += strings.Join(planted, "\n")
	}
	b := bundleOf(run)
	b.recorder.(*fakeRecorder).event = func(seq int64) observe.Entry {
		return observe.Entry{Seq: seq, Event: &gputrain.Event{Kind: gputrain.EventTask, State: "failed", Err: &gputrain.TaskError{Name: "x", Stack: strings.Join(planted, "\n") + strings.Join(hostile, " ")}, Spec: &gputrain.Spec{OnPreemption: hostile[2]}}}
	}
	node := &fakePool{answer: func(mark string) string {
		return "\n" + mark + " dmesg.txt\n" + strings.Join(planted, "\n") + strings.Join(hostile, " ") + "\n" + mark + " ../../etc/passwd\nx"
	}}
	for i := range run.Nodes {
		run.Nodes[i].State = "ready"
	}
	b.pool = node
	names, texts := files(t, b)
	for _, name := range names {
		for _, secret := range []string{"hunter2", "swordfish", "abcDEF123456", "MIIEow", "0123456789AB", "hf_thisisthesecretvalue0"} {
			if i := strings.Index(texts[name], secret); i >= 0 {
				t.Errorf("%s has %q: %q", name, secret, texts[name][max(i-100, 0):i+20])
			}
		}
		checkControls(t, name, texts[name])
		if strings.Contains(name, "..") || strings.ContainsAny(name, "<>\\: \x1b") || filepath.IsAbs(name) {
			t.Errorf("a file is called %q", name)
		}
		if strings.HasSuffix(name, ".json") && !json.Valid([]byte(texts[name])) {
			t.Errorf("%s is no JSON", name)
		}
	}
	for line := range strings.Lines(texts["events.jsonl"]) {
		if !json.Valid([]byte(line)) {
			t.Fatalf("no JSON: %q", line)
		}
	}
	checkHTML(t, texts["report.html"])
	if !slices.ContainsFunc(names, func(n string) bool { return strings.HasSuffix(n, "/dmesg.txt") }) {
		t.Errorf("%q", names)
	}
}

// A bundle is never larger than its bound, and says what is not in it.
func TestBundleIsBounded(t *testing.T) {
	for _, size := range []int64{400 << 10, 1 << 20} {
		b := bundleOf(largeRun())
		b.limits.bytes, b.limits.reserve = size, 256<<10
		recorder := b.recorder.(*fakeRecorder)
		recorder.run.Seq = 1 << 40
		seed := uint64(1)
		recorder.event = func(seq int64) observe.Entry { // hardly compressible
			var text strings.Builder
			for range 40 {
				seed = seed*6364136223846793005 + 1442695040888963407
				fmt.Fprintf(&text, "%08x ", seed>>32)
			}
			return lineEntry(text.String() + "%d")(seq)
		}
		path := filepath.Join(t.TempDir(), "bundle.zip")
		if err := b.write(context.Background(), path); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Size() > size || info.Size() < size/4 {
			t.Errorf("the bundle has %d bytes, of %d: %v", info.Size(), size, err)
		}
		_, texts := unzip(t, path)
		if missing := texts["MISSING.txt"]; !strings.Contains(missing, "the bundle is full") || !strings.Contains(missing, "3134 more failed tasks have no folder") || texts["CAUSE.txt"] == "" {
			t.Errorf("MISSING.txt: %.2000s", missing)
		}
	}
}

// A bundle ends within its time, also if nodes do not answer and the recorder has more.
func TestBundleTakesNoLonger(t *testing.T) {
	run := sampleRun()
	run.Nodes[0].State, run.Nodes[1].State, run.Nodes[1].Err = "ready", "ready", "slow"
	for name, tt := range map[string]struct {
		change func(*bundle)
		most   time.Duration
		want   string
	}{
		"a node does not answer": {func(b *bundle) { b.pool = &fakePool{hangs: true} }, 20 * time.Second, "it did not answer within 20s"},
		"all nodes together": {func(b *bundle) {
			b.pool = &fakePool{hangs: true}
			b.limits.node = time.Hour
		}, 40 * time.Second, "the time for the bundle was over"},
		"the recorder is quiet": {func(b *bundle) { b.recorder.(*fakeRecorder).last = 99 }, 5 * time.Second, "cut after number 99 of 4321"},
		"the recorder is slow": {func(b *bundle) {
			b.recorder.(*fakeRecorder).event = func(seq int64) observe.Entry {
				time.Sleep(time.Second)
				return lineEntry("%d")(seq)
			}
		}, time.Minute, "the time for the bundle was over"},
		"the recorder has forgotten": {func(b *bundle) { b.recorder.(*fakeRecorder).first = 4000 }, 0, "3999 entries after number 0"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "bundle.zip")
			synctest.Test(t, func(t *testing.T) {
				b := bundleOf(run)
				tt.change(b)
				began := time.Now()
				if err := b.write(context.Background(), path); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took > min(tt.most+settleTime, time.Minute) {
					t.Errorf("it took %v", took)
				}
			})
			if _, texts := unzip(t, path); !strings.Contains(texts["MISSING.txt"], tt.want) || texts["CAUSE.txt"] == "" || texts["report.html"] == "" {
				t.Errorf("MISSING.txt lacks %q:\n%s", tt.want, texts["MISSING.txt"])
			}
		})
	}
}

func TestBundleOfAnEndedContext(t *testing.T) {
	dir := t.TempDir()
	why := errors.New("the user has gone")
	ended, cancel := context.WithCancelCause(context.Background())
	cancel(why)
	early := bundleOf(sampleRun()).write(ended, filepath.Join(dir, "bundle.zip"))

	ctx, cancel := context.WithCancelCause(context.Background())
	b := bundleOf(sampleRun())
	b.recorder.(*fakeRecorder).event = func(seq int64) observe.Entry {
		if seq == 1000 {
			cancel(why)
		}
		return lineEntry("%d")(seq)
	}
	late := b.write(ctx, filepath.Join(dir, "bundle.zip"))
	for _, err := range []error{early, late} {
		if !errors.Is(err, why) || !strings.Contains(err.Error(), "give WriteBundle a context that has not ended") || !strings.Contains(err.Error(), dir) {
			t.Errorf("%v", err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

func TestBundleThatCannotBeWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "no such folder", "bundle.zip")
	if err := bundleOf(sampleRun()).write(context.Background(), path); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Error(err)
	}
	if err := WriteBundle(context.Background(), path, nil, nil); !errors.Is(err, gputrain.ErrInvalid) {
		t.Error(err)
	}
}

func TestLedgers(t *testing.T) {
	b := bundleOf(sampleRun())
	b.ledgers = func() ([]gputrain.PoolRecord, error) {
		return []gputrain.PoolRecord{{ID: pool, Owner: "host 1", State: gputrain.PoolAbandoned, Nodes: 2, Err: errors.New("damaged")}, {ID: "another"}}, nil
	}
	if _, texts := files(t, b); !strings.Contains(texts["ledger.json"], `"state": "abandoned"`) || !strings.Contains(texts["ledger.json"], "damaged") || strings.Contains(texts["ledger.json"], "another") {
		t.Error(texts["ledger.json"])
	}
	b.ledgers = func() ([]gputrain.PoolRecord, error) { return nil, errors.New("no ledgers here") }
	if _, texts := files(t, b); !strings.Contains(texts["MISSING.txt"], "no ledgers here") {
		t.Error(texts["MISSING.txt"])
	}
}

func TestFileNames(t *testing.T) {
	seen := map[string]string{}
	for _, text := range []string{"a", "A", "", ".", "..", "../x", "a/b", "a-b", "a b", "é", strings.Repeat("x", 100), strings.Repeat("x", 101), "pool-1a/3", "\x00"} {
		name := fileName(text)
		if name == "" || strings.ContainsAny(name, "/\\ \x00") || strings.HasPrefix(name, ".") || len(name) > 60 {
			t.Errorf("%q becomes %q", text, name)
		}
		if other, twice := seen[name]; twice {
			t.Errorf("%q and %q become %q", text, other, name)
		}
		seen[name] = text
	}
}
