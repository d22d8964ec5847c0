package inventory

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gputrain/gputrain/internal/ledger"
	"github.com/gputrain/gputrain/providers/driver"
)

// The ledger records what the machines share, and every machine, before the calls that make them, and until the
// provider confirms that they are gone.
func TestRecordsBeforeItMakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cloud{}
		inv, dir := begun(t, c, &heard{})
		at := map[string]map[string]ledger.State{}
		c.before = func(op string) error {
			at[op] = rows(t, dir)
			return nil
		}
		if err := inv.Prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
		got, err := inv.Launch(t.Context(), request(inv, 0, 1), func() {})
		if err != nil || len(got.Machines) != 2 || got.Answer != nil {
			t.Fatalf("%+v, %v", got, err)
		}
		if state, ok := at["prepare"]["shared"]; !ok || state != ledger.Intended {
			t.Errorf("at Prepare the ledger has %v", at["prepare"])
		}
		for _, name := range []string{"p-1-0", "p-1-1"} {
			if state, ok := at["launch"][name]; !ok || state != ledger.Intended {
				t.Errorf("at Launch the ledger has %v of %s", at["launch"], name)
			}
			if got := rows(t, dir)[name]; got != ledger.Created {
				t.Errorf("after Launch %s is %v", name, got)
			}
		}
		ended := false
		if err := inv.End(t.Context(), time.Minute, func() { ended = true }); err != nil || !ended {
			t.Fatalf("%v; all machines are gone: %v", err, ended)
		}
		if got := at["terminate"]["p-1-0"]; got != ledger.Ending {
			t.Errorf("at Terminate p-1-0 is %v", got)
		}
		for name, state := range rows(t, dir) {
			if state != ledger.Gone {
				t.Errorf("after End %s is %v", name, state)
			}
		}
		if err := inv.Close(true); err != nil {
			t.Error(err)
		}
		if ids, err := dir.Pools(); err != nil || len(ids) != 0 {
			t.Errorf("after Close there are the ledgers %v, %v", ids, err)
		}
	})
}

// Nothing is made that cannot be recorded.
func TestMakesNothingUnrecorded(t *testing.T) {
	c := &cloud{}
	path := t.TempDir()
	dir, err := ledger.OpenDir(path)
	if err != nil {
		t.Fatal(err)
	}
	inv := New(Account{Provider: "acme", Driver: c}, pool(), &heard{})
	if err := inv.Begin(dir, []byte("key")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(path, "pools", "p-1.ledger")); err != nil {
		t.Fatal(err)
	}
	if _, err := inv.Launch(t.Context(), request(inv, 0), func() {}); !errors.Is(err, driver.ErrLedger) {
		t.Errorf("Launch: %v", err)
	}
	if err := inv.PrepareAgain(t.Context()); !errors.Is(err, driver.ErrLedger) {
		t.Errorf("PrepareAgain: %v", err)
	}
	if err := inv.Info().Record(driver.Resource{Kind: "network", Name: "net"}); !errors.Is(err, driver.ErrLedger) {
		t.Errorf("Record: %v", err)
	}
	if calls := c.ops(); len(calls) != 0 {
		t.Errorf("the driver was called: %v", calls)
	}
}

// After an unanswered launch, the inventory looks for its machine until lists are complete, and
// adopts it. The launch is not repeated.
func TestSettlesAnUnansweredLaunch(t *testing.T) {
	for _, made := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			c := &cloud{caps: driver.Capabilities{ListLag: time.Minute}}
			cut := func(op string) error {
				if op == "launch" {
					return &driver.Error{Kind: driver.ErrUnavailable, Err: errCut}
				}
				return nil
			}
			if made {
				c.after = cut
			} else {
				c.before = cut
			}
			report := &heard{}
			inv, dir := begun(t, c, report)
			begun := time.Now()
			got, err := inv.Launch(t.Context(), request(inv, 0), func() {})
			if !errors.Is(err, errCut) || !errors.Is(got.Answer, errCut) {
				t.Errorf("%v, %v", err, got.Answer)
			}
			if _, found := got.Machines["p-1-0"]; found != made {
				t.Errorf("made: %v, and there is %v", made, got.Machines)
			}
			want := map[bool]ledger.State{true: ledger.Created, false: ledger.Gone}[made]
			if state := rows(t, dir)["p-1-0"]; state != want {
				t.Errorf("made: %v, and in the ledger it is %v", made, state)
			}
			if waited := time.Since(begun); !made && waited < time.Minute {
				t.Errorf("it was given up after %v", waited)
			}
			if !made && (len(report.settling) != 1 || !report.settling[0].Equal(begun.Add(time.Minute))) {
				t.Errorf("settling until %v", report.settling)
			}
			launches := slices.DeleteFunc(c.ops(), func(op string) bool { return op != "launch" })
			if len(launches) != 1 {
				t.Errorf("%d calls", len(launches))
			}
		})
	}
}

// An audit ends only the second machine of one name, and counts its cost.
func TestAuditEndsStrays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cloud{}
		inv, _ := begun(t, c, &heard{})
		if _, err := inv.Launch(t.Context(), request(inv, 0), func() {}); err != nil {
			t.Fatal(err)
		}
		c.add("twin", "p-1-0")
		ctx, stop := context.WithCancel(t.Context())
		go inv.Audit(ctx)
		time.Sleep(auditAfter + time.Second)
		stop()
		synctest.Wait()
		if len(c.machines) != 1 || c.machines[0].ID != "id-p-1-0" {
			t.Errorf("there is %v", c.machines)
		}
		cost := NewSpending(inv, Budget{}).Cost()
		if len(cost.Machines) != 2 || cost.Machines[1].ID != "twin" || cost.Machines[1].To.IsZero() || cost.HourlyUSD != 1 {
			t.Errorf("%+v", cost)
		}
	})
}

// A machine that still runs after its termination was accepted is terminated again, and is reported
// when it is late.
func TestDiscardOfALateMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cloud{}
		inv, _ := begun(t, c, &heard{})
		if _, err := inv.Launch(t.Context(), request(inv, 0), func() {}); err != nil {
			t.Fatal(err)
		}
		c.after = func(op string) error {
			if op == "terminate" {
				c.add("id-p-1-0", "p-1-0") // it stays
			}
			return nil
		}
		var failure error
		var at time.Time
		begun := time.Now()
		inv.Discard(t.Context(), "id-p-1-0", func(err error) { failure, at = err, time.Now() })
		inv.Wait()
		leak, ok := errors.AsType[*LeakError](failure)
		if !ok || len(leak.Resources) != 1 || leak.Resources[0].ID != "id-p-1-0" {
			t.Fatalf("%v", failure)
		}
		if late := at.Sub(begun); late < stopsWithin || late > 2*stopsWithin {
			t.Errorf("it was late after %v", late)
		}
	})
}

// A machine whose end is interrupted by the end of the pool has not failed to end: the end of the pool ends it.
func TestDiscardAtTheEndOfThePool(t *testing.T) {
	c := &cloud{}
	inv, _ := begun(t, c, &heard{})
	if _, err := inv.Launch(t.Context(), request(inv, 0), func() {}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c.after = func(op string) error {
		if op == "terminate" {
			cancel()
			return driver.ErrUnavailable
		}
		return nil
	}
	inv.Discard(ctx, "id-p-1-0", func(err error) { t.Errorf("it is reported: %v", err) })
	inv.Wait()
	if ctx.Err() == nil {
		t.Error("it was not terminated")
	}
}

// A program whose pool was taken over by another program ends nothing.
func TestFencedEndsNothing(t *testing.T) {
	c, report := &cloud{}, &heard{}
	inv, dir := begun(t, c, report)
	if _, err := inv.Launch(t.Context(), request(inv, 0), func() {}); err != nil {
		t.Fatal(err)
	}
	other, _, err := dir.Take("p-1", "other", ledger.TakeOptions{Force: true})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(false)
	if err := inv.End(t.Context(), time.Minute, func() {}); !errors.Is(err, driver.ErrFenced) {
		t.Errorf("End: %v", err)
	}
	inv.Discard(t.Context(), "id-p-1-0", func(err error) {
		if !errors.Is(err, driver.ErrFenced) {
			t.Errorf("Discard: %v", err)
		}
	})
	if !errors.Is(report.lost, driver.ErrFenced) || !errors.Is(inv.Fenced(), driver.ErrFenced) {
		t.Errorf("lost: %v", report.lost)
	}
	if len(c.machines) != 1 || slices.Contains(c.ops(), "terminate") || slices.Contains(c.ops(), "release") {
		t.Errorf("%v after %v", c.machines, c.ops())
	}
}

// Recall resumes one machine for each rank. An older machine of a rank, and one that was being
// ended, are left to an audit.
func TestRecall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cloud{}
		inv, dir := begun(t, c, &heard{})
		if _, err := inv.Launch(t.Context(), request(inv, 0, 1, 2), func() {}); err != nil {
			t.Fatal(err)
		}
		if _, err := inv.Launch(t.Context(), request(inv, 0), func() {}); err != nil {
			t.Fatal(err)
		}
		inv.Leased(c.machines[1], "/root/1", []string{"key 1"})
		if err := inv.book.ledger.Ending("p-1-2"); err != nil {
			t.Fatal(err)
		}
		if err := inv.launcher.intend(request(inv, 3)); err != nil { // the program dies during this launch
			t.Fatal(err)
		}
		c.add("id-3", "p-1-3")
		c.machines[len(c.machines)-1].Rank = 3
		l, _, err := dir.Take("p-1", "other", ledger.TakeOptions{Force: true})
		if err != nil {
			t.Fatal(err)
		}
		later := New(inv.account, pool(), &heard{})
		later.Resume(l)
		defer later.Close(false)
		all, err := later.Recall(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range all {
			got = append(got, m.Instance.ID)
		}
		if want := []string{"id-p-1-0-r1", "id-p-1-1", "id-3"}; !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
		if m := all[1]; m.Name != "p-1-1" || m.Root != "/root/1" || !slices.Equal(m.HostKeys, []string{"key 1"}) {
			t.Errorf("%+v", m)
		}
		if name := later.Name(0); name != "p-1-0-r2" {
			t.Errorf("the next name of rank 0 is %s", name)
		}
		if err := later.endSurplus(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(c.machines) != 3 {
			t.Errorf("the audit has left %v", c.machines)
		}
	})
}
