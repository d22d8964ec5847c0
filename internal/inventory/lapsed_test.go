package inventory

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gputrain/gputrain/internal/ledger"
)

func TestLapsesAt(t *testing.T) {
	last := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	in := func(d time.Duration) time.Time { return last.Add(d) }
	for _, tt := range []struct {
		name    string
		expires time.Time
		closing bool
		holds   bool
		want    time.Time
	}{
		{name: "its lease", want: in(12 * time.Minute)}, // it may have lived on until it would have renewed the lease
		{name: "its TTL", expires: in(time.Minute), want: in(time.Minute)},
		{name: "its lease before its TTL", expires: in(time.Hour), want: in(12 * time.Minute)},
		{name: "a task holds the lease until the TTL", expires: in(time.Hour), holds: true, want: in(time.Hour)},
		{name: "a task holds the lease, without a TTL", holds: true},
		{name: "it was being closed", closing: true, holds: true, want: last},
	} {
		snap := &ledger.Snapshot{Header: ledger.Header{Lease: 9 * time.Minute, Expires: tt.expires}, Last: last, Closing: tt.closing}
		if at, ok := LapsesAt(snap, tt.holds); ok == tt.want.IsZero() || ok && !at.Equal(tt.want) {
			t.Errorf("%s: %v, %v; want %v", tt.name, at, ok, tt.want)
		}
	}
}

// A dead program's pool is left to Attach until its lease is over, and for longer if a task holds it.
func TestReapOnlyLapsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, dir := &cloud{}, folder(t)
		dead(t, c, dir)
		holds := true
		run := func(only string) (ended int) {
			r := NewReaper(dir, []Account{{Provider: "acme", Driver: c}}, nil)
			r.OnlyLapsed(func(tasks string) bool { return tasks == dir.TasksPath("p-1") && holds })
			r.OnlyPool(only)
			all, err := r.Run(t.Context())
			if err != nil {
				t.Error(err)
			}
			return len(all)
		}
		time.Sleep(10 * lease)
		if n := run(""); n != 0 {
			t.Errorf("a task holds the lease, and %d resources are ended", n)
		}
		holds = false
		if n := run("p-2"); n != 0 {
			t.Errorf("another pool is given, and %d resources are ended", n)
		}
		if n := run("p-1"); n != 1 {
			t.Errorf("its lease is over, and %d resources are ended", n)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c, dir := &cloud{}, folder(t)
		dead(t, c, dir)
		for _, wait := range []time.Duration{0, lease} {
			time.Sleep(wait)
			r := NewReaper(dir, []Account{{Provider: "acme", Driver: c}}, nil)
			r.OnlyLapsed(func(string) bool { return false })
			if ended, err := r.Run(t.Context()); ended != nil || err != nil {
				t.Errorf("after %v: %v, %v", wait, ended, err)
			}
		}
	})
}

// A living program gives a sign of life in the ledger, several times in its lease.
func TestKeepLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inv, dir := begun(t, &cloud{}, &heard{})
		go inv.KeepLease(t.Context())
		time.Sleep(10 * lease)
		if snap, err := dir.Read("p-1"); err != nil || time.Since(snap.Last) > renewal(lease) {
			t.Errorf("the last sign of life is %v old, %v", time.Since(snap.Last), err)
		}
	})
}
