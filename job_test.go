package gputrain_test

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
)

// What a job writes can be read while it runs: the reader waits for more, and
// the job for the reader's answer.
func TestJobOutputIsLive(t *testing.T) {
	pool := open(t, gputrain.Spec{})
	answer := filepath.Join(t.TempDir(), "answer")
	job := pool.Start(gputrain.Script(`echo ready; while [ ! -e '` + answer + `' ]; do sleep 0.05; done; printf 'good\0bye'; echo oops >&2`))
	defer job.Cancel()
	out := bufio.NewReader(job.Stdout())
	if line, err := out.ReadString('\n'); line != "ready\n" || err != nil {
		t.Fatalf("the job said %q, %v", line, err)
	}
	select {
	case <-job.Done():
		t.Fatal("the job is over before it was answered")
	default:
	}
	if err := os.WriteFile(answer, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(out)
	if string(rest) != "good\x00bye" || err != nil {
		t.Errorf("the rest is %q, %v", rest, err)
	}
	for range 2 { // from the start, for everybody, also when it is over
		whole, _ := io.ReadAll(job.Stdout())
		complaint, _ := io.ReadAll(job.Stderr())
		if string(whole) != "ready\ngood\x00bye" || string(complaint) != "oops\n" {
			t.Errorf("read again: %q, %q", whole, complaint)
		}
	}
}

// A stream that is longer than what is kept in memory is read from its file,
// and every attempt's is there.
func TestJobOutputOfEveryAttempt(t *testing.T) {
	pool := open(t, gputrain.Spec{})
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

// Without a reader in sight, only the last attempt's output is kept.
func TestOnlyTheLastAttemptIsKept(t *testing.T) {
	dir := t.TempDir()
	pool := open(t, gputrain.Spec{}, gputrain.WithResultsDir(dir))
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
	pool := open(t, gputrain.Spec{Concurrency: 2})
	for what, job := range map[string]*gputrain.Job{
		"cancelled": pool.Start(gputrain.Script("sleep 600")),
		"refused":   pool.Start(gputrain.Task{}),
		"a call":    pool.Start(norm.Call(point{3, 4})),
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
	r, err := pool.Start(norm.Call(point{3, 4})).Wait()
	if v, verr := norm.Value(r); v != 25 || errors.Join(err, verr) != nil {
		t.Errorf("the call returned %v, %v, %v", v, err, verr)
	}
}
