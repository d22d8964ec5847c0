package market

import (
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// An offer whose machine failed comes after all others for avoidFor.
const avoidFor = 10 * time.Minute

// An offerKey identifies the machines of one offer.
type offerKey struct {
	provider, account, region, instanceType, id string
	spot                                        bool
}

func offerKeyOf(o driver.Offer) offerKey {
	return offerKey{o.Provider, o.Account, o.Region, o.InstanceType, o.ID, o.Spot}
}

// queueKeyOf identifies all offers of one Config's queue.
func queueKeyOf(o driver.Offer) offerKey {
	return offerKey{provider: o.Provider, account: "queue " + source(o)}
}

// An avoidance is a failure of an offer's machine.
type avoidance struct {
	failedAt time.Time
	certain  error // not nil: the machine is the same one each time, and would fail so again
}

// Avoid notes that an offer's machine failed: [Market.Candidates] returns the offer after all
// others for a while. If certain is not nil, it leaves the offer out meanwhile: its machine is
// the same one each time, and would fail with that error again. Of a provider that has a queue, that holds for all its offers:
// a machine has waited there for as long as it may.
func (m *Market) Avoid(o driver.Offer, certain error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.avoided == nil {
		m.avoided = map[offerKey]avoidance{}
	}
	key := offerKeyOf(o)
	if certain != nil && m.caps.Of(o).Queues {
		key = queueKeyOf(o)
	}
	m.avoided[key] = avoidance{failedAt: time.Now(), certain: certain}
}

// avoids returns why an offer's machine failed lately, or "", and the error if it would again.
func (m *Market) avoids(o driver.Offer) (failed string, certain error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range []offerKey{queueKeyOf(o), offerKeyOf(o)} {
		if a, known := m.avoided[key]; known && time.Since(a.failedAt) < avoidFor {
			return "its machine failed, or its launch", a.certain
		}
	}
	return "", nil
}
