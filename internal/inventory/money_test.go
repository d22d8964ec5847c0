package inventory

import (
	"context"
	"errors"
	"maps"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gputrain/gputrain/internal/ledger"
	"github.com/gputrain/gputrain/providers/driver"
)

// Each begun unit of billing counts, until the billing of the machine ends.
func TestMachineCost(t *testing.T) {
	from := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name string
		unit time.Duration
		m    machine
		end  time.Duration
		usd  float64
	}{
		{"by the instant", 0, machine{}, 90 * time.Minute, 3},
		{"a begun unit", time.Hour, machine{}, 61 * time.Minute, 4},
		{"a unit at least", time.Hour, machine{}, 0, 2},
		{"nothing before it is there", 0, machine{}, -time.Hour, 0},
		{"until it is gone", 0, machine{gone: from.Add(time.Hour)}, 5 * time.Hour, 2},
		{"until its end is accepted", 0, machine{gone: from.Add(2 * time.Hour), unbilled: from.Add(time.Hour)}, 5 * time.Hour, 2},
	} {
		tt.m.launched, tt.m.inst.Offer.HourlyUSD, tt.m.inst.Offer.BillingUnit = from, driver.USD(2), tt.unit
		if usd, known := tt.m.usd(from.Add(tt.end)); usd != tt.usd || !known {
			t.Errorf("%s: %v, %v, want %v", tt.name, usd, known, tt.usd)
		}
	}
	if usd, known := (&machine{launched: from}).usd(from.Add(time.Hour)); usd != 0 || known {
		t.Errorf("of an unknown price: %v, %v", usd, known)
	}
}

// What a vendor bills begins when the vendor begins it, and what it gives back is not in the cost.
func TestBillingByTheVendorsRule(t *testing.T) {
	later, disk, refunds := driver.Billing{AfterLaunch: true}, driver.Billing{AfterLaunch: true, FromLaunch: "disk"}, driver.Billing{Refunds: true}
	const minute = time.Minute
	for name, tt := range map[string]struct {
		rule             driver.Billing
		unit             time.Duration
		began, over, end time.Duration // after the launch; 0 is never
		usd              float64
	}{
		"boots":                         {later, minute, 0, 0, 0, 0},
		"boots, as it may soon be":      {later, minute, 0, 0, 30 * minute, 30}, // 30 min after the present
		"never came up":                 {later, minute, 0, 9 * minute, 60 * minute, 0},
		"came up":                       {later, minute, 5 * minute, 0, 20 * minute, 15},
		"came up, a begun unit":         {later, minute, 5 * minute, 0, 5*minute + time.Second, 1},
		"came up just now":              {later, minute, 5 * minute, 0, 5 * minute, 1},
		"came up and ended":             {later, 0, 5 * minute, 10 * minute, 60 * minute, 5},
		"a disk while it boots":         {disk, 0, 5 * minute, 0, 5 * minute, 0.5},
		"a disk, then all":              {disk, 0, 5 * minute, 0, 20 * minute, 15.5},
		"a disk alone":                  {disk, 0, 0, 10 * minute, 60 * minute, 1},
		"prepaid":                       {refunds, 10 * minute, 0, 0, 11 * minute, 20},
		"prepaid, a unit at its launch": {refunds, 10 * minute, 0, 0, 0, 10},
		"prepaid, the rest given back":  {refunds, 10 * minute, 0, 11 * minute, 60 * minute, 11},
		"prepaid, to the second":        {refunds, 10 * minute, 0, 90 * time.Second, 60 * minute, 1.5},
		"not given back":                {driver.Billing{}, 10 * minute, 0, 11 * minute, 60 * minute, 20},
	} {
		synctest.Test(t, func(t *testing.T) {
			from := time.Now()
			m := &machine{launched: from, inst: driver.Instance{Name: "p1-0", Offer: driver.Offer{
				HourlyUSD: driver.USD(60), Parts: []driver.PricePart{{Name: "machine", HourlyUSD: 54}, {Name: "disk", HourlyUSD: 6}}, BillingUnit: tt.unit, Billing: tt.rule,
			}}}
			if tt.began > 0 {
				m.began = from.Add(tt.began)
			}
			if tt.over > 0 {
				m.unbilled = from.Add(tt.over)
			}
			row := rowOf(m.inst)
			row.Intended, row.Bill = from, m.bill()
			for where, m := range map[string]*machine{"": m, "by the ledger ": Account{}.machineOf(row)} {
				usd, known := m.usd(from.Add(tt.end))
				parts, sum := map[string]float64{}, 0.0
				m.addParts(from.Add(tt.end), parts)
				for _, part := range parts {
					sum += part
				}
				if !known || math.Abs(usd-tt.usd) > 1e-9 || math.Abs(sum-tt.usd) > 1e-9 {
					t.Errorf("%s%s: $%v of %v, want $%v", where, name, usd, parts, tt.usd)
				}
			}
		})
	}
}

// Billing begins by what the provider reports of a machine, once, and not after its end was asked for.
func TestBillingBegins(t *testing.T) {
	for name, tt := range map[string]struct {
		rule     driver.Billing
		accepted bool
		inst     driver.Instance
		want     bool
	}{
		"free states":           {driver.Billing{AfterLaunch: true}, false, driver.Instance{State: driver.InstancePending, Unbilled: true}, false},
		"a failed boot":         {driver.Billing{AfterLaunch: true}, false, driver.Instance{State: driver.InstanceFailed, Unbilled: true}, false},
		"billed before it runs": {driver.Billing{AfterLaunch: true}, false, driver.Instance{State: driver.InstancePending}, true},
		"it runs":               {driver.Billing{AfterLaunch: true}, false, driver.Instance{State: driver.InstanceRunning}, true},
		"it is gone":            {driver.Billing{AfterLaunch: true}, false, driver.Instance{State: driver.InstanceTerminated}, false},
		"it ends":               {driver.Billing{AfterLaunch: true}, true, driver.Instance{State: driver.InstanceStopped}, false},
		"from its launch":       {driver.Billing{}, false, driver.Instance{State: driver.InstanceRunning}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := &cloud{}
			inv, _ := begun(t, c, &heard{})
			s := NewSpending(inv, Budget{})
			m := &machine{launched: time.Now(), inst: driver.Instance{ID: "m1", Offer: driver.Offer{HourlyUSD: driver.USD(60), Billing: tt.rule}}}
			if tt.accepted {
				m.accepted = time.Now()
			}
			inv.machines.byID["m1"] = m
			tt.inst.ID = "m1"
			time.Sleep(time.Minute)
			s.Seen([]driver.Instance{tt.inst, {ID: "another's", State: driver.InstanceRunning}})
			began := m.began
			time.Sleep(time.Minute)
			s.Seen([]driver.Instance{tt.inst})
			if began.IsZero() == tt.want || !m.began.Equal(began) {
				t.Errorf("%s: began %v, then %v", name, began, m.began)
			}
		})
	}
}

// A machine is billed until its provider accepts its termination, and longer if the provider
// reports later that the machine runs.
func TestAcceptedEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{launched: time.Now()}
		time.Sleep(time.Hour)
		if m.observe(driver.InstanceStopped) || !m.over().IsZero() {
			t.Error("before its end was asked for it is over")
		}
		accepted := time.Now()
		m.accepted = accepted
		time.Sleep(time.Minute)
		if !m.observe(driver.InstanceUnknown) || m.observe(driver.InstanceUnknown) || !m.over().Equal(accepted) {
			t.Errorf("it is over since %v, want %v", m.over(), accepted)
		}
		if m.isLate(accepted.Add(-usualEnd)) != true || m.isLate(accepted) {
			t.Error("it is late too soon, or never")
		}
		if m.observe(driver.InstanceRunning) || !m.over().IsZero() {
			t.Error("one that runs is over")
		}
		ran := time.Now()
		if !m.isLate(accepted.Add(-time.Second)) || m.isLate(ran) {
			t.Error("one that goes on running is not late, or too soon")
		}
		time.Sleep(time.Minute)
		if !m.observe(driver.InstanceUnknown) || !m.over().Equal(ran) {
			t.Errorf("it is over since %v, want %v", m.over(), ran)
		}
	})
}

// A budget pays for as many machines as it can, one launch at a time, and ends the tasks and the
// pool in time.
func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cloud{}
		inv, _ := begun(t, c, &heard{})
		s := NewSpending(inv, Budget{USD: 2.5, Collect: 2 * time.Minute})
		hourly := driver.Offer{InstanceType: "small", HourlyUSD: driver.USD(1), BillingUnit: time.Hour}
		if err := s.Affordable([]driver.Offer{hourly}, 3); !errors.Is(err, driver.ErrBudget) {
			t.Errorf("three are affordable: %v", err)
		}
		dear := hourly
		dear.Available, dear.HourlyUSD = 1, driver.USD(1.5)
		if err := s.Affordable([]driver.Offer{dear, hourly}, 2); err != nil {
			t.Errorf("two of two offers are not: %v", err)
		}
		n, done, err := s.Reserve(t.Context(), hourly, 3)
		if n != 2 || !errors.Is(err, driver.ErrBudget) {
			t.Fatalf("it pays for %d, %v", n, err)
		}
		waited := make(chan int, 1)
		go func() { // waits for its turn, and then sees what the first launch has cost
			n, done, _ := s.Reserve(t.Context(), hourly, 1)
			defer done()
			waited <- n
		}()
		synctest.Wait()
		var ranks []int
		for rank := range n {
			ranks = append(ranks, rank)
		}
		req := request(inv, ranks...)
		req.Offer = hourly
		if _, err := inv.Launch(t.Context(), req, func() {}); err != nil {
			t.Fatal(err)
		}
		done()
		if n := <-waited; n != 0 {
			t.Errorf("it pays for %d more", n)
		}
		n, done, err = s.Reserve(t.Context(), hourly, 1)
		done()
		if n != 0 || !errors.Is(err, driver.ErrBudget) {
			t.Errorf("it pays for %d more, %v", n, err)
		}
		begun := time.Now()
		var collect, end time.Duration
		s.Watch(t.Context(), func(error) { collect = time.Since(begun) }, func(error) { end = time.Since(begun) })
		if want := time.Hour - 2*time.Minute; collect < want-time.Second || collect > want+time.Second {
			t.Errorf("tasks end after %v", collect)
		}
		if want := time.Hour - endTime; end < want-time.Second || end > want+time.Second {
			t.Errorf("the pool ends after %v", end)
		}
	})
}

// A launch that waits for its turn to spend stops waiting when its context ends.
func TestBudgetWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inv, _ := begun(t, &cloud{}, &heard{})
		s := NewSpending(inv, Budget{USD: 1})
		s.paying <- struct{}{}
		why := errors.New("it is enough")
		ctx, stop := context.WithCancelCause(t.Context())
		stop(why)
		n, done, err := s.Reserve(ctx, driver.Offer{}, 1)
		done() // ends no other launch's turn
		if n != 0 || !errors.Is(err, why) || len(s.paying) != 1 {
			t.Errorf("%d, %v", n, err)
		}
	})
}

// The cost after the program's death is bounded if every machine ends itself.
func TestCostIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &scripted{}
		inv := New(Account{Provider: "acme", Driver: c}, pool(), &heard{})
		if err := inv.Begin(folder(t), []byte("key")); err != nil {
			t.Fatal(err)
		}
		defer inv.Close(false)
		s := NewSpending(inv, Budget{USD: 0.01})
		got, err := inv.Launch(t.Context(), request(inv, 0), func() {})
		if err != nil {
			t.Fatal(err)
		}
		if cost := s.Cost(); cost.Bounded || cost.AtMostUSD != 0 {
			t.Errorf("before its lease: %+v", cost)
		}
		inv.Leased(got.Machines["p-1-0"], "/root", nil)
		want := lapse(lease).Hours()
		if cost := s.Cost(); !cost.Bounded || cost.AtMostUSD != want || cost.OverspendUSD != want-0.01 {
			t.Errorf("with its lease: %+v, want at most %v", cost, want)
		}
		s.Hold(1)
		if cost := s.Cost(); cost.Bounded {
			t.Errorf("while a task holds the lease: %+v", cost)
		}
		s.Hold(-1)
		if cost := s.Cost(); !cost.Bounded {
			t.Errorf("after that: %+v", cost)
		}
	})
}

// A view is a Reporter that asks for the cost each time that it has changed, as a program's views do.
type view struct {
	heard
	spending *Spending
	last     Cost
}

func (v *view) Billed() {
	if v.spending != nil {
		v.last = v.spending.Cost()
	}
}

// What is told of the cost is as Cost says: also of a bound that comes with a node's lease, and goes while a task holds it.
func TestBoundIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		report := &view{}
		inv := New(Account{Provider: "acme", Driver: &scripted{}}, pool(), report)
		if err := inv.Begin(folder(t), []byte("key")); err != nil {
			t.Fatal(err)
		}
		defer inv.Close(false)
		report.spending = NewSpending(inv, Budget{})
		bounded := func(what string, want bool) {
			t.Helper()
			if now := report.spending.Cost(); report.last.Bounded != want || now.Bounded != want || report.last.AtMostUSD != now.AtMostUSD {
				t.Errorf("%s: told %+v, and it is %+v", what, report.last, now)
			}
		}
		got, err := inv.Launch(t.Context(), request(inv, 0), func() {})
		if err != nil {
			t.Fatal(err)
		}
		bounded("on its way up", false)
		inv.Leased(got.Machines["p-1-0"], "/root", nil)
		bounded("with a lease", true)
		report.spending.Hold(1)
		bounded("while a task holds it", false)
		report.spending.Hold(1)
		report.spending.Hold(-1)
		bounded("while one of two still does", false)
		report.spending.Hold(-1)
		bounded("after that", true)
	})
}

// These are reasons not to leave a pool.
func TestUnbounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rented := func(d driver.Driver, info driver.PoolInfo, caps driver.Capabilities, leased bool) *Spending {
			inv := New(Account{Provider: "acme", Driver: d, Caps: caps}, info, &heard{})
			if err := inv.Begin(folder(t), []byte("key")); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { inv.Close(false) })
			got, err := inv.Launch(t.Context(), request(inv, 0), func() {})
			if err != nil {
				t.Fatal(err)
			}
			if leased {
				inv.Leased(got.Machines["p-1-0"], "/root", nil)
			}
			return NewSpending(inv, Budget{})
		}
		held := func(s *Spending) *Spending { s.Hold(1); return s }
		unpriced := func(s *Spending) *Spending {
			for _, m := range s.machines.byID {
				m.inst.Offer.HourlyUSD = driver.Price{}
			}
			return s
		}
		over := func(s *Spending) *Spending {
			for _, m := range s.machines.byID {
				m.gone = time.Now()
			}
			return s
		}
		billed := func(s *Spending) *Spending {
			if err := s.shared.record(driver.Resource{Kind: "volume", ID: "v", HourlyUSD: driver.USD(1)}); err != nil {
				t.Error(err)
			}
			return s
		}
		expires := pool()
		expires.Expires = time.Now().Add(time.Hour)
		none := driver.Capabilities{}
		for _, tt := range []struct {
			name            string
			s               *Spending
			alone, guardian string // the only reason, or a part of it, without a guardian and with one
		}{
			{"a machine that ends itself", rented(&scripted{}, pool(), none, true), "", ""},
			{"one on its way up", rented(&scripted{}, pool(), none, false), "has no lease yet", ""},
			{"one that cannot end itself", rented(&cloud{}, pool(), none, true), "cannot end itself, and there is no guardian", ""},
			{"a task that holds the lease", held(rented(&scripted{}, pool(), none, true)), "has no TTL", "has no TTL"},
			{"such a task with a TTL", held(rented(&scripted{}, expires, none, true)), "", ""},
			{"no price", unpriced(rented(&scripted{}, pool(), none, true)), "the price of", "the price of"},
			{"free", held(rented(&cloud{}, pool(), driver.Capabilities{Free: true}, false)), "", ""},
			{"adopted", held(unpriced(rented(&cloud{}, pool(), driver.Capabilities{Adopts: true}, false))), "", ""},
			{"gone", over(rented(&cloud{}, pool(), driver.Capabilities{EndsWithProgram: true}, true)), "", ""},
			{"ends with the program", rented(&scripted{}, pool(), driver.Capabilities{EndsWithProgram: true}, true), "its machines end with this program", "its machines end with this program"},
			{"a volume", billed(rented(&scripted{}, pool(), none, true)), "what the machines share is billed", ""},
		} {
			for _, g := range []struct {
				guarded bool
				want    string
			}{{false, tt.alone}, {true, tt.guardian}} {
				why := tt.s.Unbounded(g.guarded)
				if g.want == "" && why != nil || g.want != "" && (len(why) != 1 || !strings.Contains(why[0], g.want)) {
					t.Errorf("%s, guarded %v: %q, want %q", tt.name, g.guarded, why, g.want)
				}
			}
		}
	})
}

// A scripted cloud has machines that end themselves.
type scripted struct{ cloud }

func (*scripted) Scripts(driver.Instance) driver.Scripts {
	return driver.Scripts{SelfDestruct: "poweroff"}
}

func TestSummarize(t *testing.T) {
	usd, hour := 2.0, time.Now().Add(-time.Hour)
	sum := Summarize(&ledger.Snapshot{Header: ledger.Header{Provider: "acme"}, Rows: []ledger.Row{
		{Kind: "shared", Name: "shared", State: ledger.Created},
		{Kind: machineKind, Name: "gone", ID: "1", State: ledger.Gone, HourlyUSD: &usd, Created: hour, Gone: hour.Add(30 * time.Minute)},
		{Kind: machineKind, Name: "not priced", ID: "2", State: ledger.Leased, Created: hour},
		{Kind: machineKind, Name: "perhaps", State: ledger.Intended, HourlyUSD: &usd, Intended: hour},
		{Kind: machineKind, Name: "never", State: ledger.Gone, HourlyUSD: &usd, Intended: hour},
	}})
	if sum != (Summary{Machines: 2, CostUSD: 1, Unknown: 1}) {
		t.Errorf("%+v", sum)
	}
}

// What was paid is summed by what was charged when, by part, with the traffic.
func TestPricesThatMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parts := func(machine, disk float64) driver.Offer {
			return driver.Offer{
				HourlyUSD: driver.USD(machine + disk), EgressUSD: 0.5, IngressUSD: 0.25,
				Parts: []driver.PricePart{{Name: "machine", HourlyUSD: machine}, {Name: "disk", HourlyUSD: disk}},
			}
		}
		m := &machine{launched: time.Now(), inst: driver.Instance{Offer: parts(1, 0.25)}}
		from := m.launched
		if m.reprice(parts(1, 0.25)) || m.reprice(driver.Offer{}) {
			t.Error("the same price, or none, is news")
		}
		time.Sleep(time.Hour)
		if !m.reprice(parts(3, 0.25)) {
			t.Error("a new price is no news")
		}
		time.Sleep(30 * time.Minute)
		m.reprice(parts(2, 0.25))
		m.traffic = traffic{received: 2 << 30, sent: 1 << 30}
		for after, want := range map[time.Duration]float64{0: 1, time.Hour: 2.25, 90 * time.Minute: 3.875, 2 * time.Hour: 5} {
			if usd, known := m.usd(from.Add(after)); usd != want || !known {
				t.Errorf("after %v: $%v, want $%v", after, usd, want)
			}
		}
		sums := map[string]float64{}
		m.addParts(from.Add(2*time.Hour), sums)
		if want := map[string]float64{"machine": 3.5, "disk": 0.5, "traffic": 1}; !maps.Equal(sums, want) {
			t.Errorf("%v, want %v", sums, want)
		}
	})
}

// A begun unit is charged at the last price.
func TestUnitsOfPricesThatMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{launched: time.Now(), inst: driver.Instance{Offer: driver.Offer{HourlyUSD: driver.USD(1), BillingUnit: time.Hour}}}
		time.Sleep(90 * time.Minute)
		m.reprice(driver.Offer{HourlyUSD: driver.USD(3)})
		if usd, _ := m.usd(time.Now()); usd != 3 {
			t.Errorf("$%v, want $3", usd)
		}
	})
}

// What is billed beside machines counts while it is there, and afterwards with what it has cost. It does not end itself.
func TestSharedThingsThatAreBilled(t *testing.T) {
	dir := folder(t)
	synctest.Test(t, func(t *testing.T) {
		inv := New(Account{Provider: "acme", Driver: &cloud{}}, pool(), quiet{})
		if err := inv.Begin(dir, nil); err != nil {
			t.Fatal(err)
		}
		defer inv.Close(true)
		s := NewSpending(inv, Budget{})
		volume := driver.Resource{Kind: "volume", Name: "v1", HourlyUSD: driver.USD(0.5)}
		key := driver.Resource{Kind: "key", Name: "k1", HourlyUSD: driver.USD(0)}
		for _, r := range []driver.Resource{volume, key} {
			if err := inv.Info().Record(r); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Hour)
		volume.ID = "vol-1"
		if err := inv.Info().Record(volume); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if c := s.Cost(); c.USD != 1 || c.HourlyUSD != 0.5 || c.Bounded || c.Parts["shared"] != 1 || s.USD() != 1 {
			t.Errorf("%+v", c)
		}
		inv.shared.released()
		time.Sleep(time.Hour)
		if c := s.Cost(); c.USD != 1 || c.HourlyUSD != 0 || !c.Bounded {
			t.Errorf("after it is gone: %+v", c)
		}
	})
}
