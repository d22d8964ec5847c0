package inventory

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gputrain/gputrain/internal/ledger"
	"github.com/gputrain/gputrain/internal/market"
	"github.com/gputrain/gputrain/providers/driver"
)

// dead makes the ledger of a dead program, and what the cloud holds for it.
func dead(t *testing.T, c *cloud, dir *ledger.Dir) {
	t.Helper()
	inv := New(Account{Provider: "acme", Driver: c, Caps: c.caps}, pool(), &heard{})
	if err := inv.Begin(dir, []byte("key")); err != nil {
		t.Fatal(err)
	}
	if _, err := inv.Launch(t.Context(), request(inv, 0), func() {}); err != nil {
		t.Fatal(err)
	}
	inv.Leased(c.machines[0], "/root", nil)
	if err := inv.Close(false); err != nil {
		t.Fatal(err)
	}
}

func TestReap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, dir := &cloud{}, folder(t)
		dead(t, c, dir)
		strangers := NewReaper(dir, []Account{{Provider: "other", Driver: &cloud{}}}, nil)
		if ended, err := strangers.Run(t.Context()); err != nil || ended != nil || len(c.machines) != 1 {
			t.Errorf("given another provider: %v, %v", ended, err)
		}
		ended, err := NewReaper(dir, []Account{{Provider: "acme", Driver: c}}, nil).Run(t.Context())
		if err != nil || len(ended) != 1 || ended[0].ID != "id-p-1-0" {
			t.Errorf("%v, %v", ended, err)
		}
		if ids, err := dir.Pools(); err != nil || len(ids) != 0 || len(c.machines) != 0 {
			t.Errorf("it leaves the ledgers %v, %v, and %v", ids, err, c.machines)
		}
	})
}

// Reap leaves a pool alone if its program is alive, which holds the lock.
func TestReapLeavesTheLivingAlone(t *testing.T) {
	c := &cloud{}
	inv, dir := begun(t, c, &heard{})
	if _, err := inv.Launch(t.Context(), request(inv, 0), func() {}); err != nil {
		t.Fatal(err)
	}
	ended, err := NewReaper(dir, []Account{{Provider: "acme", Driver: c}}, nil).Run(t.Context())
	if err != nil || ended != nil || len(c.machines) != 1 {
		t.Errorf("%v, %v; there is %v", ended, err, c.machines)
	}
}

// Beside a program that is ending the pool, as its guardian does, Reap waits until that is done. It ends what is left, and tells for what it
// has waited in vain.
func TestReapWaitsForWhoEndsThePool(t *testing.T) {
	for what, tt := range map[string]struct {
		patient bool                 // Reap's context does not end
		after   func(inv *Inventory) // a minute
		left    int
		says    string
	}{
		"it ends the pool":     {true, func(inv *Inventory) { inv.Close(true) }, 1, ""}, // the cloud here is not asked by it
		"it gives the pool up": {true, func(inv *Inventory) { inv.Close(false) }, 0, ""},
		"it takes too long":    {true, func(*Inventory) {}, 1, "was not gone after 5m0s"},
		"Reap has no patience": {false, func(*Inventory) {}, 1, "deadline exceeded while this one waited for it"},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := &cloud{}
			inv, dir := begun(t, c, &heard{})
			if _, err := inv.Launch(t.Context(), request(inv, 0), func() {}); err != nil {
				t.Fatal(err)
			}
			inv.Closing()
			if guard := NewReaper(dir, []Account{{Provider: "acme", Driver: c}}, nil); what == "it takes too long" {
				guard.OnlyLapsed(func(string) bool { return false })
				if _, err := guard.Run(t.Context()); err != nil {
					t.Errorf("Guard waits for nobody: %v", err)
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			if !tt.patient {
				ctx, cancel = context.WithTimeout(t.Context(), 10*time.Second)
			}
			defer cancel()
			time.AfterFunc(time.Minute, func() { tt.after(inv) })
			_, err := NewReaper(dir, []Account{{Provider: "acme", Driver: c}}, nil).Run(ctx)
			if len(c.machines) != tt.left || (err != nil) != (tt.says != "") || err != nil && (!errors.Is(err, driver.ErrInUse) || !strings.Contains(err.Error(), tt.says)) {
				t.Errorf("%s: %v; %d machines", what, err, len(c.machines))
			}
			time.Sleep(time.Minute)
		})
	}
}

// Reap names what it cannot end, and keeps its ledger for another Reap.
func TestReapThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, dir := &cloud{}, folder(t)
		dead(t, c, dir)
		c.before = func(op string) error {
			if op == "terminate" {
				return &driver.Error{Kind: driver.ErrUnavailable, Err: errCut}
			}
			return nil
		}
		ended, err := NewReaper(dir, []Account{{Provider: "acme", Driver: c}}, nil).Run(t.Context())
		leak, ok := errors.AsType[*LeakError](err)
		if ended != nil || !ok || len(leak.Resources) != 1 || leak.Resources[0].ID != "id-p-1-0" || !strings.Contains(err.Error(), "pool p-1") {
			t.Errorf("%v, %v", ended, err)
		}
		if snap, err := dir.Read("p-1"); err != nil || !snap.Closing {
			t.Errorf("the ledger is %+v, %v; Attach could take up what is half ended", snap, err)
		}
	})
}

// Reap ends what a pool ran on an adopted host, and names the host if that fails.
func TestReapLeavesHosts(t *testing.T) {
	for _, failure := range []error{nil, os.ErrDeadlineExceeded} {
		synctest.Test(t, func(t *testing.T) {
			c, dir := &cloud{caps: driver.Capabilities{Adopts: true}}, folder(t)
			dead(t, c, dir)
			var left []string
			_, err := NewReaper(dir, []Account{{Provider: "acme", Driver: c, Caps: c.caps}}, func(_ context.Context, h Host) error {
				left = append(left, fmt.Sprint(h.Pool, " ", h.Name, " ", h.Instance.ID, " ", h.Root, " ", h.Generation, " ", h.Lease, " ", string(h.Key)))
				return failure
			}).Run(t.Context())
			if want := "p-1 p-1-0 id-p-1-0 /root 2 5m0s key"; len(left) != 1 || left[0] != want {
				t.Errorf("%q, want %q", left, want)
			}
			if !errors.Is(err, failure) || failure != nil && !strings.Contains(err.Error(), "files and processes of the pool on id-p-1-0") {
				t.Errorf("%v", err)
			}
			ids, _ := dir.Pools()
			if gone := len(ids) == 0; gone != (failure == nil) {
				t.Errorf("%v, and the ledgers are %v", failure, ids)
			}
		})
	}
}

// In a pool of several accounts, Reap ends what is in the given ones, and names the rest.
func TestDivide(t *testing.T) {
	group := market.NewGroup("cheapest", []string{"acme"}, []driver.Driver{&cloud{}})
	a := Account{Provider: "cheapest", Driver: group, Caps: group.Capabilities()}
	given, left := a.divide([]ledger.Row{
		{Name: "shared", Kind: "shared"},
		{Name: "p-1-0", Kind: machineKind, Member: "acme"},
		{Name: "p-1-1", Kind: machineKind, Member: "other", ID: "other/1"},
		{Name: "p-1-2", Kind: machineKind, Member: "other", State: ledger.Gone},
		{Name: "shared other", Kind: "shared", Member: "other"},
	})
	if len(given) != 2 || given[1].Name != "p-1-0" || len(left) != 2 || left["p-1-1"].ID != "other/1" || left["shared other"].Provider != "other" {
		t.Errorf("%v, %v", given, left)
	}
}

// accounts returns the group "cheapest" of two accounts, one of which cannot be listed.
func accounts(c *cloud) (group Account, members []Account) {
	broken := &cloud{before: func(op string) error {
		if op == "list" {
			return &driver.Error{Provider: "other", Op: op, Kind: driver.ErrUnavailable, Err: errCut}
		}
		return nil
	}}
	g := market.NewGroup("cheapest", []string{"acme", "other"}, []driver.Driver{c, broken})
	return Account{Provider: "cheapest", Driver: g, Caps: g.Capabilities()}, []Account{{Provider: "acme", Driver: c}, {Provider: "other", Driver: broken}}
}

// inGroup begins a group's pool, whose program dies during a launch at the first account.
func inGroup(t *testing.T, group Account, dir *ledger.Dir) {
	t.Helper()
	inv := New(group, pool(), &heard{})
	if err := inv.Begin(dir, []byte("key")); err != nil {
		t.Fatal(err)
	}
	if err := inv.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	for offer := range group.Driver.Offers(t.Context(), driver.Query{}) {
		req := request(inv, 0)
		req.Offer = offer
		if err := inv.launcher.intend(req); err != nil {
			t.Fatal(err)
		}
		req.Pool = inv.Info()
		if _, err := group.Driver.Launch(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		break
	}
	if err := inv.Close(false); err != nil {
		t.Fatal(err)
	}
}

// An account that has nothing of a pool is not asked about it, and its failures do no harm.
func TestReapAsksNoOtherAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, dir := &cloud{}, folder(t)
		group, members := accounts(c)
		inGroup(t, group, dir)
		r := NewReaper(dir, members, nil)
		known := r.byLedger(t.Context())
		_ = r.work.Wait()
		if len(known) != 1 || len(r.errs) > 0 || len(c.machines) > 0 {
			t.Errorf("%v; there is %v", r.errs, c.machines)
		}
	})
}

// Recall asks only the accounts that may hold something of the pool.
func TestRecallAsksNoOtherAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, dir := &cloud{}, folder(t)
		group, _ := accounts(c)
		inGroup(t, group, dir)
		l, _, err := dir.Take("p-1", "other", ledger.TakeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		later, _ := accounts(c)
		inv := New(later, pool(), &heard{})
		inv.Resume(l)
		defer inv.Close(false)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if all, err := inv.Recall(ctx); err != nil || len(all) != 1 || all[0].Instance.ID != "acme/id-p-1-0" {
			t.Errorf("%v, %v", all, err)
		}
	})
}

// A LeakError without resources means that not even that is known.
func TestLeakErrorOfNothingKnown(t *testing.T) {
	if got := leak(nil, errCut).Error(); got != "not confirmed that everything is gone: the connection was cut" {
		t.Error(got)
	}
}

func TestLedgerError(t *testing.T) {
	for err, kind := range map[error]error{ledger.ErrInUse: driver.ErrInUse, ledger.ErrFenced: driver.ErrFenced, ledger.ErrFull: driver.ErrLedger, errCut: driver.ErrLedger} {
		got := LedgerError("attach", fmt.Errorf("p-1: %w", err))
		if !errors.Is(got, kind) || !errors.Is(got, err) {
			t.Errorf("%v: %v", err, got)
		}
	}
}
