package kubernetes

import (
	"fmt"
	"testing"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// many adds Jobs of a pool.
func (f *fake) many(n int) {
	f.Do(func() {
		for i := range n {
			name := fmt.Sprintf("p1-%d", i)
			f.jobs[name] = &job{Metadata: meta{Name: name, UID: name, Labels: map[string]string{keyPool: "p1", keyNode: name}}, Spec: jobSpec{Suspend: true}}
		}
	})
}

// A list is read to its end, and begun anew if a page has expired: it is never cut short.
func TestPages(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.many(7)
	f.Do(func() { f.pageLimit, f.expire = 3, 2 })
	d := cloudtest.Open(t, f.config())
	listed, err := d.List(t.Context(), "p1")
	if err != nil || len(listed) != 7 {
		t.Errorf("%d, %v", len(listed), err)
	}
	f.Do(func() { f.expire = 1 << 20 })
	listed, err = d.List(t.Context(), "p1")
	cloudtest.Is(t, err, driver.ErrNotFound, providerName, "list", testToken)
	if len(listed) > 0 {
		t.Errorf("%d things and an error", len(listed))
	}
}

// A list of another kind is no list.
func TestOddList(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.Inject(fakecloud.Fault{Op: opJobs, Times: -1, Answer: fakecloud.Reply(200, map[string]any{"kind": "Status", "status": "Success"})})
	_, err := cloudtest.Open(t, f.config()).List(t.Context(), "p1")
	cloudtest.Is(t, err, driver.ErrUnavailable, providerName, "list", testToken)
}
