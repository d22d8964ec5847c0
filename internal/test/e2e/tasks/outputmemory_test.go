package tasks

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

// wantWhole compares a result's stdout, from memory or from its file, with want, and returns how many bytes are in
// memory.
func wantWhole(t *testing.T, r gputrain.Result, want []byte) int {
	t.Helper()
	whole := r.Stdout
	if r.StdoutFile != "" {
		var err error
		if whole, err = os.ReadFile(r.StdoutFile); err != nil {
			t.Error(err)
		}
		if len(r.Stdout) == len(whole) {
			t.Errorf("a file has %d bytes that are in memory too", len(whole))
		}
	}
	if !bytes.Equal(whole, want) || !bytes.HasPrefix(whole, r.Stdout) || r.StdoutBytes != int64(len(want)) || r.Truncated {
		t.Errorf("task %d: %d of %d bytes were kept, %d in memory", r.Index, len(whole), len(want), len(r.Stdout))
	}
	return len(r.Stdout)
}

// TestOutputsInMemoryHaveABound runs tasks that print more than all of them may keep in memory. No output is lost, and
// results that the caller has received no longer count.
func TestOutputsInMemoryHaveABound(t *testing.T) {
	const size, each, all, least = 50_000, 40_000, 100_000, 4 << 10
	pool := e2etest.Open(t, gputrain.Spec{Nodes: 1, Concurrency: 4}, gputrain.WithResultsDir(t.TempDir()),
		gputrain.WithLimits(gputrain.Limits{KeptOutputBytes: each, KeptTotalBytes: all}))
	want := []byte(strings.Repeat("0123456789", size/10))
	prints := gputrain.Cmd("cat")
	prints.Stdin = want
	tasks := slices.Repeat([]gputrain.Task{prints}, 10)
	short := gputrain.Cmd("echo", "short")
	for round := range 2 { // by the second round the caller has received the first results
		results, err := pool.Gather(append(tasks, short)...)
		if err != nil {
			t.Fatal(err)
		}
		kept := 0
		for _, r := range results[:10] {
			n := wantWhole(t, r, want)
			if n < least || n > each {
				t.Errorf("%d bytes are in memory", n)
			}
			kept += n
		}
		if kept > all+10*least || kept < all {
			t.Errorf("round %d: %d bytes are in memory", round, kept)
		}
		if r := results[10]; string(r.Stdout) != "short\n" || r.StdoutFile != "" {
			t.Errorf("round %d: a short output is %q in memory, %q on disk", round, r.Stdout, r.StdoutFile)
		}
	}

	first := map[*gputrain.Job]int{}
	var jobs []*gputrain.Job
	for range 5 {
		jobs = append(jobs, pool.Start(prints))
		<-jobs[len(jobs)-1].Done()
	}
	if r, err := pool.Run(prints); err != nil || wantWhole(t, r, want) != least {
		t.Errorf("beside jobs that were not waited for: %d bytes, %v", len(r.Stdout), err)
	}
	for _, j := range jobs {
		var read bytes.Buffer
		if _, err := read.ReadFrom(j.Stdout()); err != nil || !bytes.Equal(read.Bytes(), want) {
			t.Errorf("a job's reader got %d bytes, %v", read.Len(), err)
		}
		r, err := j.Wait()
		if err != nil {
			t.Error(err)
		}
		first[j] = wantWhole(t, r, want)
	}
	if first[jobs[0]] != each || first[jobs[4]] != least {
		t.Errorf("the first job has %d bytes in memory, the last one %d", first[jobs[0]], first[jobs[4]])
	}
	for r, err := range pool.Stream(tasks...) { // each may use all memory, as the caller has the earlier results
		if err != nil {
			t.Fatal(err)
		}
		wantWhole(t, r, want)
	}
	retried := gputrain.Script(`cat; [ "$GPUTRAIN_ATTEMPT" = 3 ]`)
	retried.Stdin, retried.Retries = want, 2
	if r, err := pool.Run(retried); err != nil || wantWhole(t, r, want) != each {
		t.Errorf("a third attempt has %d bytes in memory, %v", len(r.Stdout), err)
	}
}

func TestNoBoundOfOutputsInMemory(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{}, gputrain.WithLimits(gputrain.Limits{KeptOutputBytes: -1, KeptTotalBytes: -1}))
	r, err := pool.Run(gputrain.Cmd("head", "-c", "3000000", "/dev/zero"))
	if err != nil || len(r.Stdout) != 3_000_000 || r.StdoutFile != "" {
		t.Errorf("%d bytes are in memory, %q, %v", len(r.Stdout), r.StdoutFile, err)
	}
}
