package transfer

import (
	"bytes"
	"context"
	"io"
	"sync"
)

const (
	aheadFiles = 64       // how many files are read before their turn
	aheadSize  = 64 << 10 // the largest that is
)

// An ahead reads small files before their turn: that hides what it costs to
// open them.
type ahead struct {
	ctx     context.Context
	cancel  context.CancelFunc
	results chan chan small // in the order of the items
	wg      sync.WaitGroup
}

// A small is a file that was read, or why it was not.
type small struct {
	data []byte
	err  error
}

func readAhead(ctx context.Context, items []item) *ahead {
	ctx, cancel := context.WithCancel(ctx)
	a := &ahead{ctx: ctx, cancel: cancel, results: make(chan chan small, aheadFiles)}
	work := make(chan func())
	for range 4 {
		a.wg.Go(func() {
			for do := range work {
				do()
			}
		})
	}
	a.wg.Go(func() {
		defer close(work)
		for i := range items {
			if !isSmall(&items[i]) {
				continue
			}
			result := make(chan small, 1)
			select {
			case a.results <- result:
			case <-ctx.Done():
				return
			}
			work <- func() { result <- read(&items[i]) }
		}
	})
	return a
}

// open returns the content of an item. Small ones are asked for in order.
func (a *ahead) open(it *item) (io.ReadCloser, error) {
	if !isSmall(it) {
		return open(it)
	}
	select {
	case result := <-a.results:
		got := <-result
		return io.NopCloser(bytes.NewReader(got.data)), got.err
	case <-a.ctx.Done():
		return nil, context.Cause(a.ctx)
	}
}

// stop ends the reading and waits for that.
func (a *ahead) stop() {
	a.cancel()
	a.wg.Wait()
}

func isSmall(it *item) bool { return it.mode.IsRegular() && it.size <= aheadSize }

func read(it *item) small {
	f, err := open(it)
	if err != nil {
		return small{err: err}
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, it.size))
	return small{data, err}
}
