//go:build unix

package training

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gputrain/gputrain/internal/attempt"
	"github.com/gputrain/gputrain/internal/gang"
	"github.com/gputrain/gputrain/internal/launcher"
	"github.com/gputrain/gputrain/internal/output"
	"github.com/gputrain/gputrain/internal/transfer"
)

// Of several error files the earliest is read. A file that is too large, or that no process of torchrun has written, is left out.
func TestTraceback(t *testing.T) {
	o := attempt.Outcome{OutputDir: t.TempDir()}
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(o.OutputDir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		o.Outputs = append(o.Outputs, transfer.File{Name: name, Size: int64(len(text))})
	}
	record := func(stack string, at int) string {
		return fmt.Sprintf(`{"message": {"message": "m", "extraInfo": {"py_callstack": %q, "timestamp": "%d"}}}`, stack, at)
	}
	if got := traceback(o); got != "" {
		t.Errorf("without files: %q", got)
	}
	write("torchrun/a/0/error.json", record("second", 1700000002))
	write("torchrun/a/1/error.json", record("first", 1700000001))
	write("torchrun/a/2/error.json", record(strings.Repeat("x", mostRecord), 1600000000))
	write("torchrun/a/3/error.json", `{"message": "a program's own"}`)
	write("other.json", record("other", 1600000000))
	o.Outputs = append(o.Outputs, transfer.File{Name: "gone/error.json", Size: 10})
	if got := traceback(o); got != "first" {
		t.Errorf("got %q", got)
	}
}

// A filesHost is a gang of two shares. Share 1 fails, and its files come until the attempt ends.
type filesHost struct {
	gang.Host
	t    *Training
	node *cutNode
	last *gang.Attempt
}

func (h *filesHost) Grow(context.Context, int) ([]gang.Node, error) { return []gang.Node{h.node}, nil }
func (h *filesHost) Prepare(context.Context, *gang.Attempt, []int) []gang.Failure {
	return nil
}
func (h *filesHost) Release(context.Context, *gang.Attempt, *gang.Track) []gang.Failure { return nil }
func (h *filesHost) Clean(context.Context, *gang.Attempt) []gang.Failure                { return nil }
func (h *filesHost) Checkpoint() int64                                                  { return -1 }
func (h *filesHost) Report(_ gang.State, e *gang.Attempt)                               { h.last = e }
func (h *filesHost) Order(_ *gang.Attempt, failures []gang.Failure) []gang.Failure      { return failures }

func (h *filesHost) Start(ctx context.Context, _ *gang.Attempt, track *gang.Track) {
	for share := range 2 {
		track.Prepared(share)
		a := h.t.attempt(ctx, &started{share: share, track: track, output: &output.Share{}, progress: &progress{track: track, share: share}})
		var failure *attempt.Failure
		if share == 1 {
			failure = attempt.Failed(attempt.Exit, nil)
			failure.ExitCode = 3
			a.Judged(failure, time.Now())
			failure.ExitCode = 4 // what the attempt does to it later is not seen early
		}
		context.AfterFunc(ctx, func() { track.Ended(share, failureOf(failure, share, 0)) })
	}
}

// A training ends when a process has failed, and does not wait until the files of that have come.
func TestFailureBeforeItsFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &filesHost{t: &Training{Config: Config{Launcher: launcher.Processes}}, node: &cutNode{ctx: t.Context()}}
		began := time.Now()
		ok, err := gang.Run(t.Context(), gang.Config{Host: h, Nodes: 1, Shares: 2})
		if took := time.Since(began); ok || err != nil || took > 10*time.Second {
			t.Fatalf("%t, %v after %v", ok, err, took)
		}
		if all := h.last.Failures; len(all) != 1 || all[0].Share != 1 || all[0].Rank != 1 || all[0].Why.ExitCode != 3 || !all[0].At.Equal(began) {
			t.Errorf("%+v", all)
		}
	})
}
