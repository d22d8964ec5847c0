package node

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/bounded"
	"github.com/gputrain/gputrain/internal/ssh"
)

// A pendingQuery is a command that a machine runs for what it prints.
type pendingQuery struct {
	cancel      context.CancelFunc
	done        chan struct{}
	out, stderr bounded.Buffer
	err         error
}

// queries run while the machine is taken over: after that, each would take two more round
// trips. The zero value has none. One goroutine at a time uses them.
type queries struct {
	pending map[string]*pendingQuery // by their text
	wg      sync.WaitGroup
}

// begin starts commands that run until ctx ends, and does not wait for them.
func (q *queries) begin(ctx context.Context, client *ssh.Client, texts ...string) {
	for _, text := range texts {
		if text == "" || q.pending[text] != nil {
			continue
		}
		one := &pendingQuery{done: make(chan struct{})}
		var until context.Context
		until, one.cancel = context.WithCancel(ctx)
		if q.pending == nil {
			q.pending = map[string]*pendingQuery{}
		}
		q.pending[text] = one
		q.wg.Go(func() {
			defer close(one.done)
			defer one.cancel()
			one.err = client.Exec(until, text, nil, &one.out, &one.stderr)
		})
	}
}

// answer returns what a command prints: one that has begun, or else one that is run now. The
// error is as that of [ssh.Client.Exec].
func (q *queries) answer(ctx context.Context, client *ssh.Client, text string) (stdout, stderr string, err error) {
	if begun := q.pending[text]; begun != nil {
		delete(q.pending, text) // it may be run again, for another answer
		select {
		case <-begun.done:
		case <-ctx.Done():
			begun.cancel()
			<-begun.done
			return "", "", ctx.Err()
		}
		if !errors.Is(begun.err, ssh.ErrDisconnected) {
			return begun.out.String(), begun.stderr.String(), begun.err
		}
	}
	var out, complaint bounded.Buffer
	err = client.Exec(ctx, text, nil, &out, &complaint)
	return out.String(), complaint.String(), err
}

// repeat runs a command that may run twice, again if the connection of client is cut meanwhile. Its stdin is input, which may
// end early then. The error is as that of [ssh.Client.Exec].
func repeat(ctx context.Context, client *ssh.Client, on Commands, text, input string) (stdout string, err error) {
	for {
		var out bounded.Buffer
		err := on.Exec(ctx, text, strings.NewReader(input), &out, nil)
		if !errors.Is(err, ssh.ErrDisconnected) || client.Err() != nil || ctx.Err() != nil {
			return out.String(), err
		}
	}
}

// end ends the commands whose answer was not needed.
func (q *queries) end() {
	for _, one := range q.pending {
		one.cancel()
	}
	q.wg.Wait()
	q.pending = nil
}

// queryEarly begins all commands whose answers will be needed. Those about NVIDIA's devices are
// dropped if the machine has none.
func (n *Node) queryEarly() {
	client, scripts := n.Client(), n.scripts()
	n.queries.begin(n.ctx, client, scripts.Probe, scripts.FindAddress)
	if n.sharing.wanted() && !n.container.wanted() && !n.Resumed() {
		n.queries.begin(n.ctx, client, findSharing)
	}
	want := queryOf(n).Accelerator
	if scripts.Probe != "" || n.Resumed() || !canCompare(want) {
		return
	}
	if model, known := accelerators.Lookup(want.Name); known && model.Vendor != "NVIDIA" {
		n.queries.begin(n.ctx, client, listPCI)
	} else {
		n.queries.begin(n.ctx, client, listNvidia, initCUDA)
	}
}
