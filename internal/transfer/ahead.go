package transfer

import (
	"context"
	"io"
	"io/fs"
	"os"
	"sync"
)

const (
	aheadFiles = 64       // how many files are opened before their turn
	aheadSize  = 64 << 10 // larger files are not
)

// An ahead opens and reads small files before their turn, so that opening them costs no time.
type ahead struct {
	ctx     context.Context
	cancel  context.CancelFunc
	results chan chan opened // in the order of the items
	wg      sync.WaitGroup
}

// An opened is an item's open file, or the content of a small file, or an error.
type opened struct {
	file *os.File
	data []byte // if file is nil
	info fs.FileInfo
	err  error
}

func (o opened) close() {
	if o.file != nil {
		o.file.Close()
	}
}

func readAhead(ctx context.Context, items []item) *ahead {
	ctx, cancel := context.WithCancel(ctx)
	a := &ahead{ctx: ctx, cancel: cancel, results: make(chan chan opened, aheadFiles)}
	work := make(chan func())
	for range 4 {
		a.wg.Go(func() {
			for do := range work {
				do()
			}
		})
	}
	a.wg.Go(func() {
		defer close(a.results)
		defer close(work)
		for i := range items {
			if !isSmall(&items[i]) {
				continue
			}
			result := make(chan opened, 1)
			select {
			case a.results <- result:
			case <-ctx.Done():
				return
			}
			work <- func() { result <- readSmall(&items[i]) }
		}
	})
	return a
}

// open opens an item. Small ones must be asked for in order.
func (a *ahead) open(it *item) opened {
	if !isSmall(it) {
		return open(it)
	}
	select {
	case result := <-a.results:
		return <-result
	case <-a.ctx.Done():
		return opened{err: context.Cause(a.ctx)}
	}
}

// stop stops reading and waits for its end.
func (a *ahead) stop() {
	a.cancel()
	for result := range a.results {
		o := <-result
		o.close()
	}
	a.wg.Wait()
}

func isSmall(it *item) bool { return it.mode.IsRegular() && it.size <= aheadSize }

// readSmall reads a file that was small when it was listed, unless it has grown.
func readSmall(it *item) opened {
	o := open(it)
	if o.err != nil || o.info.Size() > aheadSize {
		return o
	}
	o.data = make([]byte, o.info.Size())
	_, o.err = io.ReadFull(o.file, o.data)
	if changed := checkUnchanged(o.file, o.info); changed != nil {
		o.err = changed
	}
	o.close()
	o.file = nil
	return o
}
