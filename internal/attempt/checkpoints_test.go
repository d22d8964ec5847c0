package attempt

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"testing"

	"github.com/gputrain/gputrain/internal/checkpoint"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/internal/transfer"
)

// brokenFiles are the files of a node that does nothing.
type brokenFiles struct{ err error }

func (b brokenFiles) Script(context.Context, string, string, int64, ...string) (string, error) {
	return "", b.err
}

func (b brokenFiles) Contents(context.Context, string, string, transfer.Limits) ([]transfer.Content, error) {
	return nil, b.err
}

func (b brokenFiles) FetchFiles(context.Context, []transfer.Content, string, transfer.FetchOptions) ([]transfer.File, error) {
	return nil, b.err
}

func (b brokenFiles) Sums(context.Context, string, []string) ([]string, error) { return nil, b.err }

func (b brokenFiles) Upload(context.Context, string, string, transfer.Options) error { return b.err }

// A checkpoint that cannot be put back fails the attempt before it begins. One that cannot be copied does not.
func TestCheckpointsThatFail(t *testing.T) {
	lost, broken := errors.New("the node is lost"), errors.New("no room, hunter2hunter2")
	for name, tt := range map[string]struct {
		restore, lost error
		cancelled     bool
		cause         Cause // -1 for a success
	}{
		"copied badly": {cause: -1},
		"not restored": {restore: broken, cause: NeverStarted},
		"lost":         {restore: broken, lost: lost, cause: NodeLost},
		"cancelled":    {restore: broken, lost: lost, cancelled: true, cause: Cancelled},
	} {
		n, c, r := &fakeNode{lost: tt.lost}, testCommand(t), testRunner(t, io.Discard)
		ctx, cancel := context.WithCancel(t.Context())
		c.Context = ctx
		if tt.cancelled {
			cancel()
		}
		files := &brokenFiles{tt.restore}
		c.Checkpoints = &Checkpoints{
			Keeper: checkpoint.New(checkpoint.Config{To: filepath.Join(t.TempDir(), "to")}),
			Node:   checkpoint.Node{Name: "node 3", Dir: "/ckpt", Notice: "/notice", Files: files},
		}
		ran, failed := false, 0
		c.Failed = func(*Failure) { failed++ }
		n.run = func(_ context.Context, spec supervisor.Spec, s supervisor.Sinks) (supervisor.Exit, error) {
			if _, ok := spec.Env["GPUTRAIN_RESUME"]; !ok || spec.Env["GPUTRAIN_CHECKPOINTS"] != "/ckpt" || spec.Env["GPUTRAIN_NOTICE"] != "/notice" {
				t.Errorf("%s: %v", name, spec.Env)
			}
			files.err = broken
			s.Started()
			ran = true
			return supervisor.Exit{}, nil
		}
		o := r.Run(ctx, n, n, c)
		cancel()
		if tt.cause == -1 {
			if o.Failure != nil || !ran || failed != 0 {
				t.Errorf("%s: %+v", name, o.Failure)
			}
		} else if o.Failure == nil || o.Failure.Cause != tt.cause || ran || failed != 1 || o.ExitCode != -1 {
			t.Errorf("%s: %+v, ran: %v", name, o.Failure, ran)
		}
		if r.Keeping.n != 0 {
			t.Errorf("%s: %d attempts are still counted", name, r.Keeping.n)
		}
	}
}
