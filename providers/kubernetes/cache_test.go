package kubernetes

import (
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// The pool asks for each of its machines. One list answers all of them, until the driver changes
// something. The test changes freshFor, so nothing runs beside it.
func TestOneListForAll(t *testing.T) {
	freshFor = time.Hour
	defer func() { freshFor = 0 }()
	f := startFake(t)
	d, in := launched(t, f, f.config())
	cloudtest.Describe(t, d, in.ID)
	before := len(f.Records(opJobs))
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { cloudtest.Describe(t, d, in.ID) })
	}
	wg.Wait()
	if n := len(f.Records(opJobs)) - before; n != 0 {
		t.Errorf("%d lists for 20 questions", n)
	}
	if err := d.Terminate(t.Context(), in.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := d.List(t.Context(), "p1"); err != nil {
		t.Error(err)
	}
	cloudtest.Describe(t, d, in.ID)
	if n := len(f.Records(opJobs)) - before; n != 2 {
		t.Errorf("%d lists after an end; want one for List, and one for Describe", n)
	}
}
