package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gputrain/gputrain"
)

// providerFlags are the flags of commands that ask providers.
func providerFlags(o *options, flags *flag.FlagSet) {
	flags.StringVar(&o.accounts, "accounts", "", "a JSON `FILE`: {\"work\": {\"provider\": \"vastai\"}}")
}

// poolFlags are the flags of commands for a POOL.
func poolFlags(o *options, flags *flag.FlagSet) {
	stateFlag(o, flags)
	providerFlags(o, flags)
	flags.Var(&o.providers, "provider", "the pool's `PROVIDER` with settings; repeatable")
}

func stateFlag(o *options, flags *flag.FlagSet) {
	flags.StringVar(&o.state, "state", "", "the `DIR` of the ledgers; empty: the user's own")
}

// providersOf returns the providers that arguments name.
func (s *session) providersOf(args []string) (all []gputrain.Provider, err error) {
	for _, arg := range args {
		p, err := s.provider(arg)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// provider reads an argument: an account's name, or a provider's, and after a = settings as JSON.
func (s *session) provider(arg string) (gputrain.Provider, error) {
	name, text, configured := strings.Cut(arg, "=")
	var settings map[string]any
	if configured {
		if err := json.Unmarshal([]byte(text), &settings); err != nil {
			return nil, wrongUsage("the settings of %s are not JSON: %v", name, err)
		}
	} else if s.accounts != "" {
		p, found, err := s.account(name)
		if found || err != nil {
			return p, err
		}
	}
	if needsSDK(name) {
		return nil, errNeedsSDK
	}
	p, err := newProvider(name, settings)
	if err != nil {
		return nil, wrongUsage("%v", err)
	}
	return p, nil
}

// account returns the account of a name, and whether the file of accounts has it.
func (s *session) account(name string) (gputrain.Provider, bool, error) {
	text, err := os.ReadFile(s.accounts)
	if err != nil {
		return nil, false, fmt.Errorf("-accounts: %w", err)
	}
	var file map[string]map[string]any
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, false, fmt.Errorf("%s is no file of accounts ({\"work\": {\"provider\": \"vastai\"}}): %w", s.accounts, err)
	}
	settings, found := file[name]
	if !found {
		return nil, false, nil
	}
	for key, value := range settings {
		if of, _ := value.(string); strings.EqualFold(key, "provider") && needsSDK(of) {
			return nil, true, errNeedsSDK
		}
	}
	accounts, err := newAccounts(map[string]map[string]any{name: settings})
	if err != nil {
		return nil, true, fmt.Errorf("%s: %w", s.accounts, err)
	}
	p, err := accounts.Provider(name)
	return p, true, err
}

// The names of providers that are made of others.
const cheapest, firstOf = "cheapest", "firstof"

// providerOf returns the provider of a pool: by -provider, or by the name in the ledger.
func (s *session) providerOf(r gputrain.PoolRecord) (gputrain.Provider, error) {
	given, err := s.providersOf(s.providers)
	switch {
	case err != nil:
		return nil, err
	case r.Provider == "":
		const next = "\"pools list PROVIDER\" shows what an account holds of it"
		if r.Err != nil {
			return nil, fmt.Errorf("%w; %s", r.Err, next)
		}
		return nil, fmt.Errorf("the ledger of pool %s does not name its provider; %s", r.ID, next)
	case r.Provider == cheapest && given != nil:
		return gputrain.Cheapest(given...), nil
	case r.Provider == firstOf && given != nil:
		return gputrain.FirstOf(given...), nil
	case isGroup(r):
		return nil, wrongUsage("pool %s is of several providers: name each with -provider", r.ID)
	case len(given) > 1:
		return nil, wrongUsage("pool %s is of one provider, %s, and %d are given", r.ID, r.Provider, len(given))
	case len(given) == 1 && given[0].Name() != r.Provider:
		return nil, wrongUsage("pool %s is of %s, and -provider is %s", r.ID, r.Provider, given[0].Name())
	case len(given) == 1:
		return given[0], nil
	}
	return s.provider(r.Provider)
}

// pool returns the pool of a name or an ID by the ledgers.
func (s *session) pool(name string) (gputrain.PoolRecord, error) {
	pools, err := s.dir().Pools()
	if err != nil {
		return gputrain.PoolRecord{}, err
	}
	var named []gputrain.PoolRecord
	var ids []string
	for _, p := range pools {
		if p.ID == name {
			return p, nil
		}
		if p.Name == name {
			named, ids = append(named, p), append(ids, p.ID)
		}
	}
	switch len(named) {
	case 0:
		return gputrain.PoolRecord{}, fmt.Errorf("there is no pool %q on this computer, and no file of that name; \"pools list\" shows the pools", name)
	case 1:
		return named[0], nil
	}
	return gputrain.PoolRecord{}, wrongUsage("%d pools have the name %q: give the ID of one: %s", len(named), name, strings.Join(ids, ", "))
}

// isFile reports whether an argument names a file of events rather than a pool. A name without a folder that a pool has, too, is
// the pool's, unless it ends as files of events mostly do.
func (s *session) isFile(name string) bool {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	if filepath.Base(name) != name || filepath.Ext(name) == ".events" {
		return true
	}
	pools, _ := s.dir().Pools() // if they cannot be read, a file is what is there
	return !slices.ContainsFunc(pools, func(p gputrain.PoolRecord) bool { return p.ID == name || p.Name == name })
}

// isDead reports whether a pool's program is dead, so that the pool can be ended.
func isDead(r gputrain.PoolRecord) bool {
	return r.State == gputrain.PoolAbandoned || r.State == gputrain.PoolLeaking
}

// errOf adds to an error what to do next.
func errOf(r gputrain.PoolRecord, err error) error {
	switch {
	case errors.Is(err, gputrain.ErrInUse):
		return fmt.Errorf("%w; its program is %s: give the file of events that it writes instead, end that program, or take its pool with -takeover", err, r.Owner)
	case errors.Is(err, gputrain.ErrClosed), errors.Is(err, gputrain.ErrExpired):
		return fmt.Errorf("%w; \"pools end pool %s\" does that", err, r.ID)
	case errors.Is(err, gputrain.ErrInvalid):
		return fmt.Errorf("%w; -provider gives the settings that the pool's program has used", err)
	}
	return err
}

// unique returns the providers' names, each once, in order.
func unique(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}
