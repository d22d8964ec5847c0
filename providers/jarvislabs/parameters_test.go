package jarvislabs

import (
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// StorageGB is the disk of a node whose spec names none.
func TestStorageGB(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	cfg := f.config()
	cfg.StorageGB = 120
	d := cloudtest.Prepared(t, cfg)
	for disk, want := range map[float64]int{0: 120, 70: 70} {
		spec := l4
		spec.DiskGiB = disk
		from(t, d, spec, "IN1", want)
		if asked, _ := f.created(); asked.Storage != want {
			t.Errorf("%v GiB: %+v", disk, asked)
		}
	}
}

// So many nodes are created at once as ThreadPoolSize says.
func TestThreadPoolSize(t *testing.T) {
	t.Parallel()
	for size, others := range map[int]int{1: 0, 2: 1, 3: 2} {
		f := startFake(t)
		cfg := f.config()
		cfg.ThreadPoolSize = size
		d := cloudtest.Prepared(t, cfg)
		spec := gputrain.Spec{Accelerator: l4.Accelerator, Nodes: 3}
		req := cloudtest.Request(t, spec.Query(), cloudtest.AllOffers(t, d, spec.Query())[0], 0)
		for rank := 1; rank < 3; rank++ {
			req.Nodes = append(req.Nodes, cloudtest.Request(t, spec.Query(), req.Offer, rank).Nodes...)
		}
		free := make(chan struct{})
		held := f.Inject(fakecloud.Fault{Op: opCreate, Hold: free, Times: 3})
		launched := make(chan error, 1)
		go func() {
			_, err := d.Launch(t.Context(), req)
			launched <- err
		}()
		for end := time.Now().Add(time.Minute); held.Hits() < 1+others && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(50 * time.Millisecond) // for one more, which must not come
		if n := held.Hits(); n != 1+others {
			t.Errorf("ThreadPoolSize %d: %d at once", size, n)
		}
		close(free)
		if err := <-launched; err != nil {
			t.Error(err)
		}
	}
}
