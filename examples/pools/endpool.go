package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gputrain/gputrain"
)

// endPool ends one pool.
func endPool(ctx context.Context, s *session, name string) error {
	r, err := s.pool(name)
	if err != nil {
		return err
	}
	if !isDead(r) && !s.takeover {
		return fmt.Errorf("the program of pool %s is alive, %s: end that program, or take the pool from it with -takeover", r.ID, clean(r.Owner))
	}
	provider, err := s.providerOf(r)
	if err != nil {
		return err
	}
	views, err := s.showPools([]gputrain.PoolRecord{r})
	if err != nil {
		return err
	}
	agreed, err := s.agrees(ctx, "End pool "+r.ID+"?")
	if err != nil {
		return err
	}
	if !agreed {
		return s.nothingEnded(endView{Pools: views})
	}
	if isDead(r) {
		ended, err := s.dir().ReapPool(ctx, r.ID, provider)
		return s.report(endView{Pools: views}, ended, err)
	}
	return s.closePool(ctx, r, provider, views)
}

// isGroup reports whether a pool's provider is made of others.
func isGroup(r gputrain.PoolRecord) bool { return r.Provider == cheapest || r.Provider == firstOf }

// closePool takes the pool of a living program over, and closes it.
func (s *session) closePool(ctx context.Context, r gputrain.PoolRecord, provider gputrain.Provider, views []poolView) error {
	held, err := listAll(ctx, []gputrain.Provider{provider}, r.ID)
	if err != nil {
		return err
	}
	a, err := s.take(ctx, r, provider)
	if err != nil {
		return err
	}
	err = a.Close()
	var leak *gputrain.LeakError
	if errors.As(err, &leak) {
		held = slices.DeleteFunc(held, func(h gputrain.Resource) bool {
			return slices.ContainsFunc(leak.Resources, func(l gputrain.Resource) bool { return l.ID == h.ID })
		})
	} else if err != nil {
		held = nil
	}
	return errors.Join(s.report(endView{Pools: views}, held, err), a.rec.Close())
}

// endLeft ends what dead programs have left.
func endLeft(ctx context.Context, s *session, args []string) error {
	pools, err := s.dir().Pools()
	if err != nil {
		return err
	}
	dead := slices.DeleteFunc(pools, func(p gputrain.PoolRecord) bool { return !isDead(p) })
	var notes []string
	if len(args) == 0 {
		for _, p := range dead {
			switch {
			case isGroup(p):
				notes = append(notes, fmt.Sprintf("pool %s is of several providers: name them after \"end left\"", p.ID))
			case p.Provider != "": // the ledger can be read
				args = append(args, p.Provider)
			}
		}
		args = unique(args)
	}
	args = append(args, s.providers...)
	providers, err := s.providersOf(args)
	if err != nil {
		return err
	}
	for _, note := range notes {
		fmt.Fprintln(s.err, note)
	}
	if len(providers) == 0 {
		if s.json {
			return s.report(endView{}, nil, nil)
		}
		fmt.Fprintln(s.out, "no dead program has left a pool on this computer; \"pools end left PROVIDER\" looks into an account")
		return nil
	}
	var names []string
	for _, p := range providers {
		names = append(names, p.Name())
	}
	dead = slices.DeleteFunc(dead, func(p gputrain.PoolRecord) bool {
		return !isGroup(p) && !slices.Contains(names, p.Provider)
	})
	return s.endLeftAt(ctx, providers, names, dead)
}

func (s *session) endLeftAt(ctx context.Context, providers []gputrain.Provider, names []string, dead []gputrain.PoolRecord) error {
	var views []poolView
	if len(dead) > 0 {
		var err error
		if views, err = s.showPools(dead); err != nil {
			return err
		}
	}
	question := fmt.Sprintf("End %s, and what else dead programs have certainly left at %s?", count(len(dead), "pool"), strings.Join(unique(names), " and "))
	agreed, err := s.agrees(ctx, question)
	if err != nil {
		return err
	}
	if agreed {
		ended, err := s.dir().Reap(ctx, providers...)
		return s.report(endView{Pools: views}, ended, err)
	}
	held, failed := strays(ctx, s, providers)
	if len(held) > 0 && !s.json {
		fmt.Fprintln(s.out, "\nOf other computers' pools; what dead programs have certainly left of it would end:")
		if err := printHeld(s, held, failed); err != nil {
			return err
		}
	}
	v := endView{Pools: views}
	for _, r := range held {
		v.Left = append(v.Left, viewOfResource(r))
	}
	return errors.Join(s.nothingEnded(v), failed)
}

// strays returns what the providers hold for pools that have no ledger here.
func strays(ctx context.Context, s *session, providers []gputrain.Provider) ([]gputrain.Resource, error) {
	held, failed := listAll(ctx, providers, "")
	pools, err := s.dir().Pools()
	known := map[string]bool{"": true}
	for _, p := range pools {
		known[p.ID] = true
	}
	return slices.DeleteFunc(held, func(r gputrain.Resource) bool { return known[r.Pool] }), errors.Join(failed, err)
}
