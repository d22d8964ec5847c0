package tasks

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

// The output of a job can be read while the job runs: the reader waits for more, and the job for
// the reader's answer.
func TestJobOutputIsLive(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{})
	answer := filepath.Join(t.TempDir(), "answer")
	job := pool.Start(gputrain.Script(`echo ready; while [ ! -e '` + answer + `' ]; do sleep 0.05; done; printf 'good\0bye'; echo oops >&2`))
	defer job.Cancel()
	out := bufio.NewReader(job.Stdout())
	if line, err := out.ReadString('\n'); line != "ready\n" || err != nil {
		t.Fatalf("the job said %q, %v", line, err)
	}
	select {
	case <-job.Done():
		t.Fatal("the job ended before it got its answer")
	default:
	}
	if err := os.WriteFile(answer, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(out)
	if string(rest) != "good\x00bye" || err != nil {
		t.Errorf("the rest is %q, %v", rest, err)
	}
	for range 2 { // each reader starts at the beginning, even after the job's end
		whole, _ := io.ReadAll(job.Stdout())
		complaint, _ := io.ReadAll(job.Stderr())
		if string(whole) != "ready\ngood\x00bye" || string(complaint) != "oops\n" {
			t.Errorf("read again: %q, %q", whole, complaint)
		}
	}
}

// A stream that is too long for memory is read from its file, and contains the output of every
// attempt.
func TestJobOutputOfEveryAttempt(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{})
	task := gputrain.Script(`echo "attempt $GPUTRAIN_ATTEMPT"; head -c 3000000 /dev/zero | tr '\0' "$GPUTRAIN_ATTEMPT"; [ "$GPUTRAIN_ATTEMPT" = 2 ]`)
	task.Retries = 3
	job := pool.Start(task)
	got, err := io.ReadAll(job.Stdout())
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	for _, a := range []string{"1", "2"} {
		want.WriteString("attempt " + a + "\n" + strings.Repeat(a, 3000000))
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Errorf("read %d bytes of %d", len(got), want.Len())
	}
	r, err := job.Wait()
	if err != nil || r.Attempts != 2 || r.StdoutBytes != 3000010 {
		t.Errorf("%d bytes in %d attempts, %v", r.StdoutBytes, r.Attempts, err)
	}
	last, err := os.ReadFile(r.StdoutFile)
	if err != nil || !bytes.Equal(last, want.Bytes()[3000010:]) {
		t.Errorf("the result's file has %d bytes, %v", len(last), err)
	}
}

// If nothing reads a job's output, only the last attempt's output is kept.
func TestOnlyTheLastAttemptIsKept(t *testing.T) {
	dir := t.TempDir()
	pool := e2etest.Open(t, gputrain.Spec{}, gputrain.WithResultsDir(dir))
	task := gputrain.Script(`head -c 2000000 /dev/zero; [ "$GPUTRAIN_ATTEMPT" = 2 ]`)
	task.Retries = 1
	r, err := pool.Run(task)
	if err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil || len(found) != 1 || found[0] != r.StdoutFile {
		t.Errorf("there are %v; the result names %s; %v", found, r.StdoutFile, err)
	}
}

func TestJobOutputEndsWithTheJob(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{Concurrency: 2})
	for what, job := range map[string]*gputrain.Job{
		"cancelled": pool.Start(gputrain.Script("sleep 600")),
		"refused":   pool.Start(gputrain.Task{}),
		"a call":    pool.Start(e2etest.Norm.Call(e2etest.Point{X: 3, Y: 4})),
	} {
		if what == "cancelled" {
			job.Cancel()
		}
		if b, err := io.ReadAll(job.Stdout()); len(b) > 0 || err != nil {
			t.Errorf("%s: read %q, %v", what, b, err)
		}
		if _, err := job.Wait(); (err == nil) != (what == "a call") {
			t.Errorf("%s: ended with %v", what, err)
		}
	}
	r, err := pool.Start(e2etest.Norm.Call(e2etest.Point{X: 3, Y: 4})).Wait()
	if v, verr := e2etest.Norm.Value(r); v != 25 || errors.Join(err, verr) != nil {
		t.Errorf("the call returned %v, %v, %v", v, err, verr)
	}
}
