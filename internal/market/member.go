package market

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"github.com/gputrain/gputrain/providers/driver"
)

// A member is one of the drivers of a group. Its machines have its key before their IDs,
// and its offers its index before theirs.
type member struct {
	provider string // its name
	driver   driver.Driver
	caps     *driver.Capabilities
	index    int    // in the group, from 1
	tier     int    // offers of a lower one come first
	key      string // AccountKey, by which other programs find it

	preparing  chan struct{} // has room for the one launch that prepares the member
	unanswered bool          // a Prepare was not answered; guarded by preparing
}

// AccountKey returns the name of an account of a provider in ledgers, and in the IDs of machines of a group.
func AccountKey(provider, account string) string {
	if account == "" {
		return provider
	}
	sum := sha256.Sum256([]byte(account))
	return provider + "." + hex.EncodeToString(sum[:3])
}

// ProviderOf returns the name of the provider of an account.
func ProviderOf(accountKey string) string {
	provider, _, _ := strings.Cut(accountKey, ".")
	return provider
}

func (m *member) has(id string) bool { return strings.HasPrefix(id, m.key+"/") }

func (m *member) ownID(id string) string { return strings.TrimPrefix(id, m.key+"/") }

func (m *member) groupID(id string) string {
	if id == "" {
		return ""
	}
	return m.key + "/" + id
}

// ownIDs returns the member's own IDs of its machines among these.
func (m *member) ownIDs(ids []string) (own []string) {
	for _, id := range ids {
		if m.has(id) {
			own = append(own, m.ownID(id))
		}
	}
	return own
}

// groupOffer returns the member's offer as the group's.
func (m *member) groupOffer(o driver.Offer) driver.Offer {
	o.ID, o.Account, o.Tier = strconv.Itoa(m.index)+"/"+o.ID, m.key, m.tier
	if o.Provider == "" {
		o.Provider = m.provider
	}
	if o.Capabilities == nil {
		o.Capabilities = m.caps
	}
	return o
}

// source identifies the driver of an offer: in a group the member. Members with the same account are
// different sources, as their configurations differ.
func source(o driver.Offer) string {
	index, _, found := strings.Cut(o.ID, "/")
	if o.Account == "" || !found {
		return o.Account
	}
	return o.Account + "/" + index
}

// ownOffer reverses groupOffer.
func (m *member) ownOffer(o driver.Offer) driver.Offer {
	_, id, found := strings.Cut(o.ID, "/")
	if found {
		o.ID = id
	}
	o.Account, o.Tier = "", 0
	if o.Capabilities == m.caps {
		o.Capabilities = nil
	}
	return o
}

// own returns a machine as the member knows it.
func (m *member) own(inst driver.Instance) driver.Instance {
	inst.ID, inst.Offer = m.ownID(inst.ID), m.ownOffer(inst.Offer)
	return inst
}

// groupInstances returns the member's machines as the group's. The member's slice is left as it is.
func (m *member) groupInstances(got []driver.Instance) []driver.Instance {
	got = slices.Clone(got)
	for i := range got {
		got[i].ID, got[i].Offer = m.groupID(got[i].ID), m.groupOffer(got[i].Offer)
	}
	return got
}

// resource returns a resource of the member as the group reports it. Machines keep their name, which the pool has given
// them.
func (m *member) resource(r driver.Resource) driver.Resource {
	r.ID, r.Provider, r.Account = m.groupID(r.ID), m.provider, m.key
	if r.Kind != "machine" {
		r.Name = m.groupID(r.Name)
	}
	return r
}

// info returns the pool's information for the member.
func (m *member) info(pool driver.PoolInfo) driver.PoolInfo {
	all, record := pool.Made, pool.Record
	pool.Made, pool.Remaining = nil, m.ownIDs(pool.Remaining)
	for _, r := range all {
		if m.has(r.Name) || m.has(r.ID) {
			r.ID, r.Name = m.ownID(r.ID), m.ownID(r.Name)
			pool.Made = append(pool.Made, r)
		}
	}
	return pool.WithRecord(func(r driver.Resource) error { return record(m.resource(r)) })
}
