package gputrain

import (
	"context"
	"errors"
	"sync"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/ssh"
)

// A question is a command that a machine is asked to run for what it prints.
type question struct {
	cancel      context.CancelFunc
	done        chan struct{}
	out, stderr ssh.Answer
	err         error
}

// questions are asked while the machine is taken over: after that, each would take two
// round trips more. The zero value has none. One goroutine at a time uses them.
type questions struct {
	asked map[string]*question // by their text
	wg    sync.WaitGroup
}

// begin asks, until ctx ends, and does not wait.
func (q *questions) begin(ctx context.Context, client *ssh.Client, texts ...string) {
	for _, text := range texts {
		if text == "" || q.asked[text] != nil {
			continue
		}
		one := &question{done: make(chan struct{})}
		var until context.Context
		until, one.cancel = context.WithCancel(ctx)
		if q.asked == nil {
			q.asked = map[string]*question{}
		}
		q.asked[text] = one
		q.wg.Go(func() {
			defer close(one.done)
			defer one.cancel()
			one.err = client.Exec(until, text, nil, &one.out, &one.stderr)
		})
	}
}

// answer returns what the command prints, of the question that was begun or of one that is
// asked now. The error is as that of [ssh.Client.Exec].
func (q *questions) answer(ctx context.Context, client *ssh.Client, text string) (stdout, stderr string, err error) {
	if begun := q.asked[text]; begun != nil {
		delete(q.asked, text) // it may be asked again, for another answer
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
	var out, complaint ssh.Answer
	err = client.Exec(ctx, text, nil, &out, &complaint)
	return out.String(), complaint.String(), err
}

// end drops the questions whose answer was not needed.
func (q *questions) end() {
	for _, one := range q.asked {
		one.cancel()
	}
	q.wg.Wait()
	q.asked = nil
}

// askEarly begins all the questions that the machine will be asked anyway. The answers of
// nvidia-smi are dropped if the machine has none.
func (n *poolNode) askEarly(ctx context.Context) {
	m := n.member()
	prober, probed := m.driver.(Prober)
	if probed {
		n.questions.begin(ctx, n.client, prober.Probe(m.own(n.inst)))
	}
	if finder, ok := m.driver.(AddressFinder); ok {
		n.questions.begin(ctx, n.client, finder.FindAddress(m.own(n.inst)))
	}
	if probed || n.root != "" || !n.provesAccelerator() {
		return
	}
	if model, known := accelerators.Lookup(n.p.spec.Accelerator.Name); known && model.Vendor != "NVIDIA" {
		n.questions.begin(ctx, n.client, askPCI)
	} else {
		n.questions.begin(ctx, n.client, askNvidia, askCUDA)
	}
}
