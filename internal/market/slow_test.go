package market_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gputrain/gputrain/internal/market"
	"github.com/gputrain/gputrain/providers/driver"
)

// A lister has one offer, or an error, after a time.
type lister struct {
	driver.Driver
	region string
	takes  time.Duration
	err    error
}

func (l lister) Capabilities() driver.Capabilities { return driver.Capabilities{Account: l.region} }

func (l lister) Offers(ctx context.Context, _ driver.Query) iter.Seq2[driver.Offer, error] {
	return func(yield func(driver.Offer, error) bool) {
		select {
		case <-time.After(l.takes):
			if l.err != nil {
				yield(driver.Offer{}, l.err)
				return
			}
			yield(at(l.region, 1), nil)
		case <-ctx.Done():
			yield(driver.Offer{}, ctx.Err())
		}
	}
}

// A member that does not answer holds up the others for half a minute, and is told by an error of its own.
func TestGroupDoesNotWaitForItsSlowestMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := market.NewGroup("cheapest", []string{"quick", "slow"}, []driver.Driver{lister{region: "a", takes: time.Second}, lister{region: "b", takes: time.Hour}})
		begun, found := time.Now(), 0
		var last error
		for _, err := range g.Offers(t.Context(), driver.Query{}) {
			if last = err; err == nil {
				found++
			}
		}
		partly, ok := errors.AsType[*driver.PartialError](last)
		if took := time.Since(begun); took > time.Minute || found != 1 || !ok || len(partly.Sources) != 1 {
			t.Fatalf("%d offers after %v, %v", found, took, last)
		}
		if s := partly.Sources[0]; s.Provider != "slow" || !errors.Is(s.Err, driver.ErrUnavailable) || !strings.Contains(s.Err.Error(), "has not answered within 30s") {
			t.Errorf("%+v", s)
		}
	})
}

// As long as no member has answered, nobody waits in vain for the slow ones: the only one that can be asked has its time.
func TestGroupWaitsForTheOnlyMemberThatAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := market.NewGroup("cheapest", []string{"refused", "slow"}, []driver.Driver{lister{region: "a", err: driver.ErrAuth}, lister{region: "b", takes: 3 * time.Minute}})
		found := 0
		for _, err := range g.Offers(t.Context(), driver.Query{}) {
			if err == nil {
				found++
			} else if partly, ok := errors.AsType[*driver.PartialError](err); !ok || len(partly.Sources) != 1 || partly.Sources[0].Provider != "refused" {
				t.Errorf("%v", err)
			}
		}
		if found != 1 {
			t.Errorf("%d offers", found)
		}
	})
}
