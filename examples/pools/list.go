package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/driver"
)

var listCommand = &command{
	name: "list", args: "[PROVIDER...]", most: -1, summary: "list pools, also of accounts (the default)",
	help: `The pools are those in the ledgers of this computer. With providers, it lists also
what their accounts hold for any pool: machines, networks, keys, also those of
other computers' pools. A pool is open or closing if its program is alive;
abandoned if that is dead (watch, logs, shell and "end pool" take it over);
and leaking if it was being ended and is not gone ("end left" ends it).`,
	flags: func(o *options, flags *flag.FlagSet) { stateFlag(o, flags); providerFlags(o, flags) },
	run:   list,
}

// A poolView is a pool as JSON.
type poolView struct {
	ID       string    `json:"id"`
	Name     string    `json:"name,omitzero"`
	Provider string    `json:"provider"`
	Account  string    `json:"account,omitzero"`
	State    string    `json:"state"`
	Nodes    int       `json:"nodes"`
	Created  time.Time `json:"created,omitzero"`
	Expires  time.Time `json:"expires,omitzero"`
	Lease    float64   `json:"leaseSeconds,omitzero"`
	USD      float64   `json:"spentUSD"`
	Unknown  int       `json:"unknownPrices,omitzero"`
	Owner    string    `json:"owner,omitzero"`
	Results  []string  `json:"results,omitempty"`
	Err      string    `json:"error,omitzero"`
}

func viewOfPool(p gputrain.PoolRecord) poolView {
	v := poolView{
		ID: p.ID, Name: clean(p.Name), Provider: clean(p.Provider), Account: clean(p.Account), State: p.State.String(), Nodes: p.Nodes,
		Created: p.Created, Expires: p.Expires, Lease: seconds(p.Lease), USD: p.CostUSD, Unknown: p.Unknown, Owner: clean(p.Owner), Results: p.Results,
	}
	if p.Err != nil {
		v.Err = clean(p.Err.Error())
	}
	return v
}

func list(ctx context.Context, s *session) error {
	providers, err := s.providersOf(s.args)
	if err != nil {
		return err
	}
	pools, err := s.dir().Pools()
	if err != nil {
		return err
	}
	held, failed := listAll(ctx, providers, "")
	if s.json {
		view := struct {
			Pools     []poolView `json:"pools"`
			Resources []nodeView `json:"resources,omitempty"`
		}{Pools: []poolView{}}
		for _, p := range pools {
			view.Pools = append(view.Pools, viewOfPool(p))
		}
		for _, r := range held {
			view.Resources = append(view.Resources, viewOfResource(r))
		}
		return errors.Join(printJSON(s.out, view), failed)
	}
	if err := printPools(s, pools); err != nil {
		return err
	}
	if len(providers) > 0 {
		fmt.Fprintln(s.out)
		if err := printHeld(s, held, failed); err != nil {
			return err
		}
	}
	return failed
}

func printPools(s *session, pools []gputrain.PoolRecord) error {
	if len(pools) == 0 {
		fmt.Fprintln(s.out, "no pools on this computer")
		return nil
	}
	var t table
	t.add("POOL", "PROVIDER", "STATE", "NODES", "AGE", "COST", "OWNER")
	dead := 0
	for _, p := range pools {
		t.add(p.ID, p.Provider, p.State, p.Nodes, since(p.Created, time.Now()), spent(p.CostUSD, p.Unknown), p.Owner)
		if isDead(p) {
			dead++
		}
	}
	err := t.print(s.out)
	for _, p := range pools {
		if p.Err != nil {
			fmt.Fprintf(s.err, "pool %s: %s\n", p.ID, clean(p.Err.Error()))
		}
	}
	if dead > 0 {
		fmt.Fprintf(s.err, "the program of %s is dead: \"pools end left\" shows what is to end\n", count(dead, "pool"))
	}
	return err
}

func printHeld(s *session, held []gputrain.Resource, failed error) error {
	if len(held) == 0 {
		if failed == nil {
			fmt.Fprintln(s.out, "the accounts hold nothing of any pool")
		}
		return nil
	}
	var t table
	t.add("POOL", "PROVIDER", "KIND", "ID", "STATE", "REGION", "PRICE", "AGE")
	for _, r := range held {
		t.add(r.Pool, r.Provider, r.Kind, r.ID, stateOf(r), r.Region, priceOf(r), since(r.Created, time.Now()))
	}
	return t.print(s.out)
}

// priceOf is the price of a machine, which other kinds mostly do not have.
func priceOf(r gputrain.Resource) string {
	if _, known := r.HourlyUSD.USD(); !known && r.Kind != machine {
		return ""
	}
	return perHour(r.HourlyUSD)
}

const machine = "machine"

func stateOf(r gputrain.Resource) string {
	if r.Kind != machine && r.State == driver.InstanceUnknown {
		return ""
	}
	return r.State.String()
}

// askTimeout bounds how long a provider's list may take.
const askTimeout = time.Minute

// listAll returns what the providers hold for a pool, or for every pool if the ID is empty. The error names those that could not
// be asked.
func listAll(ctx context.Context, providers []gputrain.Provider, pool string) (held []gputrain.Resource, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var errs []error
	for _, p := range providers {
		found, err := listOne(ctx, p, pool)
		held = append(held, found...)
		if err != nil {
			errs = append(errs, fmt.Errorf("what %s holds is not known: %w", p.Name(), err))
		}
	}
	return held, errors.Join(errs...)
}

func listOne(ctx context.Context, p gputrain.Provider, pool string) (_ []gputrain.Resource, err error) {
	d, err := p.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return d.List(ctx, pool)
}
