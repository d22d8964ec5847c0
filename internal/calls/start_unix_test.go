//go:build unix

package calls

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	xssh "golang.org/x/crypto/ssh"

	"github.com/gputrain/gputrain/internal/attempt"
	"github.com/gputrain/gputrain/internal/crossbuild"
	"github.com/gputrain/gputrain/internal/program"
	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/sshd"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/internal/test/bubble"
)

// A mute is a node on which no worker ever answers: its commands run on a server of SSH, and its processes do not end.
type mute struct {
	*fakeNode
	client *ssh.Client
}

func (m *mute) Exec(ctx context.Context, command string, stdin io.Reader, stdout, stderr io.Writer) error {
	return m.client.ExecMoving(ctx, command, stdin, stdout, stderr)
}

func (m *mute) Open(ctx context.Context, command string) (io.ReadWriteCloser, error) {
	return m.client.Open(ctx, command)
}

func (m *mute) Facts() supervisor.Facts {
	f := m.fakeNode.Facts()
	here := crossbuild.Here()
	f.OS, f.Arch = here.OS, here.Arch
	return f
}

func (m *mute) Supervisor() Supervisor { return m }

func (m *mute) Run(ctx context.Context, _ supervisor.Spec, _ supervisor.Sinks) (supervisor.Exit, error) {
	<-ctx.Done()
	return supervisor.Exit{Cause: supervisor.Cancelled, Code: -1}, nil
}

// A start of a worker that never answers ends, whatever the node says meanwhile: it is silent, says a byte now and then, or takes
// the program byte by byte, and to the call it says nothing, or half of an answer.
func TestStartThatNeverAnswers(t *testing.T) {
	drip := func(ctx context.Context, p sshd.Program) int {
		for ctx.Err() == nil {
			io.WriteString(p.Stdout, ".")
			io.WriteString(p.Stderr, ".")
			time.Sleep(20 * time.Second)
		}
		return 0
	}
	silent := func(ctx context.Context, _ sshd.Program) int { <-ctx.Done(); return 0 }
	absent := func(context.Context, sshd.Program) int { return 0 }
	takes := func(_ context.Context, p sshd.Program) int {
		io.Copy(io.Discard, p.Stdin)
		io.WriteString(p.Stdout, "exit=64\n") // it can be loaded
		return 0
	}
	for name, node := range map[string]struct {
		look, take, attach func(context.Context, sshd.Program) int // the program that is there, the program that is sent, and the worker
		most               time.Duration
	}{
		"a silent look":          {silent, takes, silent, 2 * time.Minute},
		"a look that says":       {drip, takes, drip, 2 * time.Minute},
		"takes nothing":          {absent, silent, silent, 8 * time.Minute},
		"says and takes nothing": {absent, drip, drip, 8 * time.Minute},
		"takes all, no answer":   {absent, func(ctx context.Context, p sshd.Program) int { io.Copy(io.Discard, p.Stdin); return silent(ctx, p) }, silent, 8 * time.Minute},
		"a silent worker":        {absent, takes, silent, 10 * time.Minute},
		"a worker that says":     {absent, takes, drip, 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			run := func(ctx context.Context, p sshd.Program) int {
				switch {
				case strings.Contains(p.Command, "exec "):
					return node.attach(ctx, p)
				case strings.Contains(p.Command, "rm -rf"):
					return node.look(ctx, p)
				}
				return node.take(ctx, p)
			}
			plain := newFakeNode(t)
			bubble.Test(t, func(t *testing.T) {
				key, _, _, err := sshd.Keys("", "")
				if err != nil {
					t.Fatal(err)
				}
				server, err := sshd.New(sshd.Config{Run: run, HostKey: key, AuthorizedKeys: []xssh.PublicKey{key.PublicKey()}})
				if err != nil {
					t.Fatal(err)
				}
				defer server.Close()
				m := &mute{plain, ssh.New(ssh.Config{
					User: "anyone", Auth: []xssh.AuthMethod{xssh.PublicKeys(key)}, HostKey: xssh.FixedHostKey(key.PublicKey()),
					Dial: func(context.Context) (net.Conn, error) { return server.Dial() },
				})}
				defer m.client.Close()
				if err := m.client.Connect(t.Context()); err != nil {
					t.Fatal(err)
				}
				var wg sync.WaitGroup
				defer wg.Wait()
				h := NewHost(Config{Runner: testRunner(t, io.Discard), Programs: program.New(nil, nil), Go: wg.Go, Generation: 1, Grace: time.Second, ResultBytes: 1 << 20}, m)
				defer h.Close()
				ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
				defer cancel()
				begun := time.Now()
				o := h.Call(&Call{Function: "pid", Attempt: attempt.Attempt{Context: ctx, Started: func() {}}})
				if took := time.Since(begun); o.Failure == nil || ctx.Err() != nil || took > node.most {
					t.Errorf("after %v: %v", took, o.Failure)
				}
			})
		})
	}
}
