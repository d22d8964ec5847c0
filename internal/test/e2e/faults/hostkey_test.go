//go:build unix

package faults

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	xssh "golang.org/x/crypto/ssh"
)

// hostKeyThatChanges gives a host another host key while a task runs there. The task fails at once,
// and its node ends when its lease runs out.
func hostKeyThatChanges(t *testing.T) {
	h := e2etest.NewHost(t)
	lost := make(chan error, 1)
	pool := e2etest.OpenHosts(t, gputrain.Spec{MaxReplacements: -1, Lease: 10 * time.Second}, []gputrain.Option{gputrain.WithEvents(func(e gputrain.Event) {
		if e.Kind == gputrain.EventNode && e.State == "lost" {
			lost <- e.Err
		}
	})}, h)
	started := filepath.Join(t.TempDir(), "started")
	job := pool.Start(gputrain.Script("echo x > '" + started + "'; sleep 600"))
	e2etest.Until(t, "the task", func() bool { return e2etest.Exists(started) })

	before := xssh.FingerprintSHA256(h.Server.HostKey)
	h.Server.NewHostKey()
	after := xssh.FingerprintSHA256(h.Server.HostKey)
	h.Server.Kill()
	h.Server.Resume()

	_, running := job.Wait()
	_, later := pool.Run(gputrain.Cmd("true"))
	for what, err := range map[string]error{"the task that ran": running, "a later task": later, "the event": <-lost} {
		if !errors.Is(err, gputrain.ErrHostKey) || !errors.Is(err, gputrain.ErrNodeLost) {
			t.Errorf("%s: %v", what, err)
		} else if s := err.Error(); !strings.Contains(s, before) || !strings.Contains(s, after) {
			t.Errorf("%s does not name %s and %s: %v", what, before, after, err)
		}
	}
	var te *gputrain.TaskError
	if !errors.As(running, &te) || te.Cause != gputrain.CauseNodeLost {
		t.Errorf("the task ended with %+v", running)
	}
	if s := pool.Nodes()[0].State; s != gputrain.NodeLost {
		t.Errorf("the node is %v", s)
	}
}
