package sim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// An api executes calls: an account sees only its own things. The cloud's mu guards it.
type api struct {
	cloud   string   // the cloud's name
	opts    *Options // without the token
	catalog *catalog
	fleet   *fleet
	record  *record
	shared  []*shared
	tokens  map[string]*launched
	balance driver.Balance // of each account
}

// A shared is a network or a key.
type shared struct {
	driver.Resource
	account string
	listed  time.Time
}

// launched is the result of a launch that had a token.
type launched struct {
	names    []string
	machines []*instance
	err      *apiError
}

// do executes a call.
func (a *api) do(entry *Call, r request, f Fault) (answer, error) {
	switch r.Op {
	case OpOpen:
		return answer{Account: &account{
			Name: a.cloud + "/" + r.Account, ListLag: a.opts.ListLag, PreemptionNotice: a.opts.PreemptionNotice,
			ProvisionTimeout: a.opts.ProvisionTimeout, NoTokens: a.opts.NoTokens, TellsAccount: a.opts.TellsAccount, NoSelfDestruct: a.opts.NoSelfDestruct,
		}}, nil
	case OpOffers:
		return answer{Offers: a.catalog.list()}, nil
	case OpPrepare:
		return a.prepare(entry, r, f)
	case OpLaunch:
		return a.launchAll(entry, r, f)
	case OpDescribe:
		return a.describe(r), nil
	case OpList:
		return a.list(r), nil
	case OpTerminate:
		return a.terminate(entry, r)
	case OpRelease:
		return a.release(entry, r)
	case OpMarkLease:
		return a.markLease(entry, r)
	case OpAccount:
		return answer{Balance: &a.balance, Quota: a.quota(r.Account)}, nil
	}
	return answer{}, &apiError{Status: statusNotFound, Message: "no such call"}
}

// prepare makes a network or a key, once for each name.
func (a *api) prepare(entry *Call, r request, f Fault) (answer, error) {
	if r.Pool.ID == "" || r.Kind == "" {
		return answer{}, &apiError{Status: statusInvalid, Message: "the pool or the kind is missing"}
	}
	for _, s := range a.shared {
		if s.account == r.Account && s.Kind == r.Kind && s.Pool == r.Pool.ID {
			return answer{Done: true}, nil
		}
	}
	now := time.Now()
	s := &shared{account: r.Account, listed: now.Add(a.opts.ListLag), Resource: driver.Resource{
		Provider: name, Kind: r.Kind, ID: r.Kind + "-" + r.Pool.ID, Name: r.Pool.ID, HourlyUSD: driver.USD(0),
		Pool: r.Pool.ID, Owner: r.Pool.Owner, Created: now, Lease: r.Pool.Lease, Expires: r.Pool.Expires,
	}}
	if f.Kind == Lag {
		s.listed = later(s.listed, now.Add(f.For))
	}
	a.shared = append(a.shared, s)
	a.record.event(s.ID, s.Name, s.Pool, "made", r.Client)
	entry.Effect = "made " + s.ID
	return answer{Done: true}, nil
}

// launchAll makes machines, as many as there is room for.
func (a *api) launchAll(entry *Call, r request, f Fault) (answer, error) {
	var names []string
	for _, n := range r.Nodes {
		if n.Name == "" {
			return answer{}, &apiError{Status: statusInvalid, Message: "a machine has no name"}
		}
		names = append(names, n.Name)
	}
	token := r.Account + "\x00" + r.Token
	if a.opts.NoTokens || r.Token == "" {
		token = ""
	}
	if l := a.tokens[token]; token != "" && l != nil {
		if !slices.Equal(l.names, names) {
			return answer{}, &apiError{Status: statusInvalid, Message: "the token was used for other machines"}
		}
		entry.Effect = "the token was used before"
		return a.launchedAnswer(l, r)
	}
	l := &launched{names: names}
	of := a.catalog.find(r.Offer.ID)
	want := r.Nodes
	if f.Kind == Partial {
		fewer := cmp.Or(f.N, (len(want)+1)/2)
		want = want[:max(len(want)-fewer, 0)]
	}
	for i, n := range want {
		if l.err = a.room(of, r.Account); l.err != nil {
			break
		}
		l.machines = append(l.machines, a.fleet.launch(r, n, of, f))
		if f.Kind == Duplicate && i == 0 && a.room(of, r.Account) == nil {
			a.fleet.launch(r, n, of, f).duplicate = true
		}
	}
	if len(l.machines) > 0 && token != "" {
		a.tokens[token] = l
	}
	entry.Effect = fmt.Sprintf("launched %d", len(l.machines))
	return a.launchedAnswer(l, r)
}

func (a *api) launchedAnswer(l *launched, r request) (answer, error) {
	out := answer{Instances: []driver.Instance{}}
	for _, m := range l.machines {
		out.Instances = append(out.Instances, m.reported(r))
	}
	if l.err != nil {
		e := *l.err
		e.Instances = out.Instances
		return answer{}, &e
	}
	return out, nil
}

// room returns why no machine of an offer can be launched, or nil.
func (a *api) room(of *offer, account string) *apiError {
	switch {
	case of == nil:
		return &apiError{Status: statusConflict, Code: codeCapacity, Message: "the offer no longer exists"}
	case !of.endless && of.Available <= 0:
		return &apiError{Status: statusConflict, Code: codeCapacity, Message: "none is left of " + of.InstanceType + " in " + of.Region}
	case a.balance.Known && a.balance.USD <= 0:
		return &apiError{Status: statusPayment, Message: fmt.Sprintf("the account has $%.2f", a.balance.USD)}
	case a.opts.Quota == 0:
		return nil
	}
	if has := len(a.fleet.inUse(account)); has >= a.opts.Quota {
		return &apiError{Status: statusConflict, Code: codeQuota, Message: fmt.Sprintf("the account has %d machines, and may not have more", has)}
	}
	return nil
}

// quota returns how many machines an account may still have.
func (a *api) quota(account string) *driver.Quota {
	has := len(a.fleet.inUse(account))
	return &driver.Quota{
		Known: a.opts.Quota != 0, Machines: max(a.opts.Quota-has, 0), Reason: fmt.Sprintf("the account may have %d machines, and has %d", max(a.opts.Quota, 0), has),
	}
}

func (a *api) describe(r request) answer {
	out := answer{Instances: []driver.Instance{}}
	for _, id := range r.IDs {
		if m := a.fleet.machine(id); m != nil && m.account == r.Account && (!time.Now().Before(m.shown) || !m.exists()) {
			out.Instances = append(out.Instances, m.reported(r))
		}
	}
	return out
}

func (a *api) list(r request) answer {
	now := time.Now()
	out := answer{Resources: []driver.Resource{}}
	for _, m := range a.fleet.inUse(r.Account) {
		if !now.Before(m.listed) && (r.Pool.ID == "" || m.pool.ID == r.Pool.ID) {
			out.Resources = append(out.Resources, m.resource())
		}
	}
	for _, s := range a.shared {
		if s.account == r.Account && !now.Before(s.listed) && (r.Pool.ID == "" || s.Pool == r.Pool.ID) {
			out.Resources = append(out.Resources, s.Resource)
		}
	}
	return out
}

func (a *api) terminate(entry *Call, r request) (answer, error) {
	for _, id := range r.IDs {
		m := a.fleet.machine(id)
		switch {
		case m == nil || m.account != r.Account:
		case m.exists():
			m.end(driver.InstanceTerminated, "terminated by "+r.Client, r.Client)
			entry.Effect += "terminated " + id + " "
		default:
			m.inst.State = driver.InstanceTerminated // in any state
		}
	}
	return answer{Done: true}, nil
}

// release removes a network or a key. It refuses a network with machines in it.
func (a *api) release(entry *Call, r request) (answer, error) {
	if r.Kind == "network" {
		for _, m := range a.fleet.inUse(r.Account) {
			if m.pool.ID == r.Pool.ID {
				return answer{}, &apiError{Status: statusConflict, Code: "in_use", Message: "machine " + m.inst.ID + " is in the network"}
			}
		}
	}
	a.shared = slices.DeleteFunc(a.shared, func(s *shared) bool {
		gone := s.account == r.Account && s.Kind == r.Kind && s.Pool == r.Pool.ID
		if gone {
			a.record.event(s.ID, s.Name, s.Pool, "removed", r.Client)
			entry.Effect = "removed " + s.ID
		}
		return gone
	})
	return answer{Done: true}, nil
}

func (a *api) markLease(entry *Call, r request) (answer, error) {
	for _, m := range a.named(r) {
		m.leaseUntil = r.Until
		entry.Effect = "marked until " + r.Until.Format(time.TimeOnly)
	}
	return answer{Done: true}, nil
}

// named returns the existing machines of the account that a call names.
func (a *api) named(r request) (all []*instance) {
	for _, id := range r.IDs {
		if m := a.fleet.machine(id); m != nil && m.account == r.Account && m.exists() {
			all = append(all, m)
		}
	}
	return all
}
