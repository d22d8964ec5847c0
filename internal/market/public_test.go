package market_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/market"
	"github.com/gputrain/gputrain/providers/driver"
)

// A keyed provider needs a key, and has a public price list if list is not nil.
type keyed struct {
	provided
	err error
}

func (k keyed) Open(context.Context) (driver.Driver, error) { return nil, k.err }

type public struct {
	keyed
	list    driver.Driver
	failure error
}

func (p public) OpenPublic(context.Context) (driver.Driver, error) { return p.list, p.failure }

// Without a key a provider is asked for its public price list, if there is one, and each offer says so.
func TestOpenToAsk(t *testing.T) {
	noKey := &driver.Error{Provider: "acme", Op: "open", Kind: driver.ErrAuth, Err: errors.New("ACME_KEY is not set")}
	list := &shop{offers: []driver.Offer{at("here", 1)}}
	locked := keyed{provided: provided{name: "acme"}, err: noKey}
	for name, tt := range map[string]struct {
		provider driver.Provider
		want     error // nil: there is a list
	}{
		"a key":              {provided{name: "acme", d: list}, nil},
		"a public list":      {public{keyed: locked, list: list}, nil},
		"no public list":     {locked, driver.ErrAuth},
		"a list that fails":  {public{keyed: locked, failure: errors.New("torn")}, driver.ErrAuth},
		"it does not answer": {public{keyed: keyed{provided{name: "acme"}, &driver.Error{Kind: driver.ErrUnavailable}}, list: list}, driver.ErrUnavailable},
		"in a group":         {market.Cheapest(public{keyed: locked, list: list}), nil},
		"in a group of one":  {market.FirstOf(locked, market.Cheapest(public{keyed: locked, list: list})), nil},
	} {
		d, err := market.OpenToAsk(t.Context(), tt.provider)
		if tt.want != nil {
			if !errors.Is(err, tt.want) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		plan, err := market.New("acme", d, market.Wants{}).Plan(t.Context())
		says := strings.Contains(fmt.Sprint(plan[0].Warnings), "it is from the public price list: a credential is missing")
		if err != nil || len(plan) < 1 || plan[0].Offer.Region != "here" || says == (name == "a key") {
			t.Errorf("%s: %+v, %v", name, plan, err)
		}
	}
	if _, err := market.Cheapest(public{keyed: locked, list: list}).Open(t.Context()); !errors.Is(err, driver.ErrAuth) {
		t.Errorf("to rent: %v", err)
	}
}

// A plan of earlier offers judges them, and warns of their age.
func TestRecall(t *testing.T) {
	old := at("old", 3)
	old.Warnings = []string{"it is loud"}
	plan := market.Recall("acme", market.Wants{Query: driver.Query{MaxHourlyUSD: 2}}, []driver.Offer{old, at("cheap", 1)}, "it was there 3h ago")
	if places(plan) != "cheap old" || plan[1].Rejected == "" || fmt.Sprint(plan[1].Warnings) != "[it was there 3h ago it is loud]" || len(plan[0].Warnings) != 1 {
		t.Errorf("%+v", plan)
	}
}
