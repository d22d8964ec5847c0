package gputrain_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/ledger"
	"github.com/gputrain/gputrain/internal/test/growth"
	"github.com/gputrain/gputrain/providers/driver"
)

// manyLedgers are the numbers of ledgers in one folder.
var manyLedgers = []int{125, 500, 2000}

// Pools lists the ledgers of dead programs.
func BenchmarkPoolsGrowth(b *testing.B) {
	growth.Report(b, manyLedgers, func(n int) time.Duration {
		state := abandonedLedgers(b, n)
		begun := time.Now()
		pools, err := state.Pools()
		took := time.Since(begun)
		if err != nil || len(pools) != n {
			b.Fatalf("%d of %d pools, %v", len(pools), n, err)
		}
		return took
	})
}

// Reap ends the pools of dead programs at a provider that has nothing of them left.
func BenchmarkReapGrowth(b *testing.B) {
	growth.Report(b, manyLedgers, func(n int) time.Duration {
		state := abandonedLedgers(b, n)
		begun := time.Now()
		_, err := state.Reap(context.Background(), emptyAccount{})
		took := time.Since(begun)
		left, listErr := state.Pools()
		if err := errors.Join(err, listErr); err != nil || len(left) > 0 {
			b.Fatalf("%d pools are left: %v", len(left), err)
		}
		return took
	})
}

// abandonedLedgers makes the ledgers of n pools, each with one machine, whose programs
// are dead.
func abandonedLedgers(b *testing.B, n int) gputrain.StateDir {
	b.Helper()
	state := gputrain.StateDir(b.TempDir())
	dir, err := ledger.OpenDir(string(state))
	if err != nil {
		b.Fatal(err)
	}
	for i := range n {
		id := fmt.Sprintf("p-%d", i)
		machine := ledger.Row{Name: id + "-0", Kind: "machine", ID: fmt.Sprintf("i-%d", i)}
		l, err := dir.Create(ledger.Header{Pool: id, Provider: "empty", Account: "empty", Lease: time.Minute}, []byte("key"), machine)
		if err == nil {
			err = errors.Join(l.Created(machine), l.Close(false))
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	return state
}

// emptyAccount is a provider whose account has no machines left.
type emptyAccount struct{}

func (emptyAccount) Name() string { return "empty" }

func (a emptyAccount) Open(context.Context) (driver.Driver, error) { return a, nil }

func (emptyAccount) Capabilities() driver.Capabilities {
	return driver.Capabilities{Account: "empty", Free: true}
}

func (emptyAccount) Prepare(context.Context, driver.PoolInfo) error { return nil }

func (emptyAccount) Release(context.Context, driver.PoolInfo) error { return nil }

func (emptyAccount) Terminate(context.Context, ...string) error { return nil }

func (emptyAccount) Close() error { return nil }

func (emptyAccount) List(context.Context, string) ([]gputrain.Resource, error) { return nil, nil }

func (emptyAccount) Offers(context.Context, driver.Query) iter.Seq2[gputrain.Offer, error] {
	return func(func(gputrain.Offer, error) bool) {}
}

func (emptyAccount) Launch(context.Context, driver.Launch) ([]driver.Instance, error) {
	return nil, gputrain.ErrNoCapacity
}

func (emptyAccount) Describe(_ context.Context, ids ...string) (all []driver.Instance, err error) {
	for _, id := range ids {
		all = append(all, driver.Instance{ID: id, State: driver.InstanceTerminated})
	}
	return all, nil
}
