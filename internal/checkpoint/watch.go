package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// Once the end of a node is announced, nodes are looked at each urgentEvery.
	urgentEvery = time.Second
	// What a task writes counts once it has not changed for settleTime. lastTime is between the two looks at what a task has
	// left that ended with success.
	settleTime, lastTime = 3 * time.Second, time.Second
)

// Watch looks at the nodes again and again until ctx ends, and copies checkpoints as they appear: one at a time, and then the
// newest of those that have appeared meanwhile. It calls grew when the content of the folder has grown, and seen with the
// step of each checkpoint that appears; both may be nil. What goes wrong is tried again, and reported: of
// copies that fail in a row the second, and a single one if nothing has come by the end.
func (k *Keeper) Watch(ctx context.Context, nodes []Node, grew func(), seenStep func(step int64)) {
	k.forgetLooks()
	k.measured, k.ran = false, true
	queue := make(chan seen, 1)
	var copies sync.WaitGroup
	copies.Go(func() {
		for s := range queue {
			_ = k.copy(ctx, nodes, s, true) // it is tried after another look
		}
	})
	defer copies.Wait()
	defer close(queue)
	for ctx.Err() == nil {
		found, hasGrown, err := k.look(ctx, nodes)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			k.report(Report{Step: -1, Err: fmt.Errorf("the checkpoints could not be looked at: %w", err)})
		} else {
			k.measure(nodes, found)
			if hasGrown && grew != nil {
				grew()
			}
			k.tellSteps(found, seenStep)
			if s, ok := k.next(found, writing); ok && !k.cfg.Shared && !k.backoff.waits(s.name) {
				select {
				case <-queue: // it has waited, and s is newer
				default:
				}
				queue <- s
			}
		}
		pause := time.NewTimer(k.every())
		select {
		case <-ctx.Done():
		case <-pause.C:
		case <-k.wake:
		}
		pause.Stop()
	}
}

// mostPause bounds the time between two tries of one checkpoint: each may move all of it.
const mostPause = 10 * time.Minute

// A backoff is a checkpoint that could not be copied, and is tried again later. Its zero value is none.
type backoff struct {
	mu    sync.Mutex
	name  string
	pause time.Duration
	until time.Time

	untold *Report // of a copy that has failed, and is tried again
}

// failed notes that a checkpoint could not be copied. The first pause is given, and further ones are longer.
func (b *backoff) failed(name string, pause time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.name == name {
		pause = min(2*b.pause, mostPause)
	}
	b.name, b.pause, b.until = name, pause, time.Now().Add(pause)
}

// waits reports whether a checkpoint could not be copied a short time ago.
func (b *backoff) waits(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.name == name && time.Now().Before(b.until)
}

// waitsForSecond keeps the report of a copy that has failed, if it is tried again and is the first in a row.
func (b *backoff) waitsForSecond(r Report, again bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !again || b.untold != nil || errors.Is(r.Err, context.Canceled) {
		b.untold = nil
		return false
	}
	b.untold = &r
	return true
}

// take returns what waitsForSecond has kept, or nil.
func (b *backoff) take() *Report {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.untold
	b.untold = nil
	return r
}

func (k *Keeper) every() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.urgent {
		return min(urgentEvery, k.cfg.Every)
	}
	return k.cfg.Every
}

// tellSteps reports the steps of whole checkpoints that are greater than those before.
func (k *Keeper) tellSteps(found []seen, tell func(step int64)) {
	for i := range found {
		s := &found[i]
		if n := stepOf(s.name); n > k.step && s.isWhole(writing) && !k.torn.is(s) {
			k.step = n
			if tell != nil {
				tell(n)
			}
		}
	}
}

// measure reports, once, that the disk of a node has too little room for the checkpoints that are kept.
func (k *Keeper) measure(nodes []Node, found []seen) {
	if k.measured || k.cfg.Shared {
		return
	}
	size := int64(0)
	if r, ok := k.store.newest(); ok {
		size = r.Bytes
	}
	for i := len(found) - 1; i >= 0 && size == 0; i-- {
		if found[i].isWhole(writing) {
			size = found[i].size
		}
	}
	if size == 0 {
		return
	}
	k.measured = true
	need := size * int64(k.cfg.Keep+1)
	for i := range k.last {
		if l := &k.last[i]; l.free >= 0 && l.free < need {
			k.report(Report{Step: -1, Err: fmt.Errorf("%s has %d MiB free for checkpoints, and %d of %d MiB each need %d MiB: keep fewer, or ask for a bigger disk",
				nodes[i].Name, l.free>>20, k.cfg.Keep+1, size>>20, need>>20)})
			return
		}
	}
}

// Last looks at the nodes after the task's end, and copies the newest whole checkpoint if it is not here yet. Of a task that
// has failed, what was written to after the last look of Watch may be cut off, and counts only if its name is step-<n>. A copy
// that has failed and did not arrive is reported, also without nodes, which is for those that are lost.
func (k *Keeper) Last(ctx context.Context, nodes []Node, success bool) error {
	if k.cfg.Shared {
		return nil
	}
	defer func() {
		if missed := k.backoff.take(); missed != nil {
			k.report(*missed)
		}
		for _, r := range k.torn.take() {
			k.report(r)
		}
	}()
	p := failed
	if success {
		p = succeeded
	}
	if len(nodes) == 0 {
		return nil
	}
	for again := false; ; again = true {
		found, _, err := k.look(ctx, nodes)
		if err != nil {
			err = fmt.Errorf("the last checkpoint could not be copied: %w", err)
			k.report(Report{Step: -1, Err: err})
			return err
		}
		changing := false
		for i := range found {
			changing = changing || !found[i].isWhole(p)
		}
		if !success || !changing || again {
			return k.copyLast(ctx, nodes, found, p)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(lastTime):
		}
	}
}

// copyLast copies the newest whole checkpoint of a look: an older one if that is torn.
func (k *Keeper) copyLast(ctx context.Context, nodes []Node, found []seen, p phase) error {
	for {
		s, ok := k.next(found, p)
		if !ok {
			return nil
		}
		if err := k.copy(ctx, nodes, s, false); err != nil || !k.torn.is(&s) {
			return err
		}
	}
}

// OneWriter reports whether, as far as Watch has seen, only the first node has written checkpoints. It is called after Watch.
func (k *Keeper) OneWriter() bool {
	for _, l := range k.last[min(len(k.last), 1):] {
		if len(l.entries) > 0 {
			return false
		}
	}
	return true
}

// noticeScript writes the number of seconds into the file $p, or removes it if there are none.
const noticeScript = `if [ -z "$left" ]; then rm -f "$p"; exit; fi
mkdir -p "${p%/*}" && printf '%s\n' "$left" >"$p.new" && mv -f "$p.new" "$p"
`

// Notice announces on nodes, in the file Node.Notice, that the task has so much time left there. From then on Watch looks
// often, since the task may write a last checkpoint.
func (k *Keeper) Notice(ctx context.Context, nodes []Node, left time.Duration) error {
	k.setUrgent(true)
	return notice(ctx, nodes, seconds(left))
}

// Spared takes a Notice back.
func (k *Keeper) Spared(ctx context.Context, nodes []Node) error {
	k.setUrgent(false)
	return notice(ctx, nodes, "")
}

// Announce is Notice, or Spared, for a task without a Keeper.
func Announce(ctx context.Context, nodes []Node, left time.Duration, spared bool) error {
	if spared {
		return notice(ctx, nodes, "")
	}
	return notice(ctx, nodes, seconds(left))
}

func seconds(left time.Duration) string { return fmt.Sprint(max(int64(left/time.Second), 0)) }

func (k *Keeper) setUrgent(urgent bool) {
	k.mu.Lock()
	k.urgent = urgent
	k.mu.Unlock()
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// notice tells all nodes, and returns the errors of those that could not be told.
func notice(ctx context.Context, nodes []Node, left string) error {
	errs := make([]error, len(nodes))
	_ = each(nodes, func(i int, n Node) error {
		_, errs[i] = n.Files.Script(ctx, n.Notice, noticeScript, lookBytes, "p="+n.Notice, "left="+left)
		return nil
	})
	return errors.Join(errs...)
}
