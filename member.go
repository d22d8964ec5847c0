package gputrain

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// A member is a driver of a pool, with what it is called there: one of a group, or the
// only one.
type member struct {
	provider string // its name
	driver   Driver
	caps     Capabilities

	// For one of a group.
	index int    // in the group, from 1
	tier  int    // offers of a lower one come first
	key   string // of its provider and account: other programs find it by that
}

// memberKey is what a member of a group is known by, there and to other programs.
func memberKey(provider, account string) string {
	if account == "" {
		return provider
	}
	sum := sha256.Sum256([]byte(account))
	return provider + "." + hex.EncodeToString(sum[:3])
}

func (m *member) ownID(id string) string {
	if m.index == 0 {
		return id
	}
	return strings.TrimPrefix(id, m.key+"/")
}

func (m *member) groupID(id string) string {
	if m.index == 0 || id == "" {
		return id
	}
	return m.key + "/" + id
}

// own returns a machine as the member itself knows it.
func (m *member) own(inst Instance) Instance {
	inst.ID, inst.Offer.member = m.ownID(inst.ID), 0
	return inst
}

func (m *member) ofGroup(got []Instance) []Instance {
	for i := range got {
		got[i].ID, got[i].Offer.member = m.groupID(got[i].ID), m.index
	}
	return got
}

// ownIDs returns, as the member knows them, those of the machines that are its.
func (m *member) ownIDs(ids []string) (own []string) {
	for _, id := range ids {
		if m.has(id) {
			own = append(own, m.ownID(id))
		}
	}
	return own
}

func (m *member) has(id string) bool { return m.index == 0 || strings.HasPrefix(id, m.key+"/") }

// resource is what the member holds as the group has it. Machines keep their name,
// which the pool has given them.
func (m *member) resource(r Resource) Resource {
	r.ID = m.groupID(r.ID)
	if r.Kind != "machine" {
		r.Name = m.groupID(r.Name)
	}
	return r
}

// info is what the member is told of a pool.
func (m *member) info(pool PoolInfo) PoolInfo {
	if m.index == 0 {
		return pool
	}
	all, record := pool.Made, pool.record
	pool.Made, pool.Remaining = nil, m.ownIDs(pool.Remaining)
	for _, r := range all {
		if m.has(r.Name) {
			r.ID, r.Name = m.ownID(r.ID), m.ownID(r.Name)
			pool.Made = append(pool.Made, r)
		}
	}
	if record != nil {
		pool.record = func(r Resource) error {
			return record(m.resource(r))
		}
	}
	return pool
}

// driversOf returns the drivers that a driver is made of.
func driversOf(provider string, d Driver) []*member {
	if g, ok := d.(*groupDriver); ok {
		return g.members
	}
	return []*member{{provider: provider, driver: d, caps: d.Capabilities()}}
}

// memberOf returns whose offer it is. One of a group that somebody has wrapped in a
// driver of his own is that driver's.
func (p *pool) memberOf(o Offer) *member {
	if o.member < 1 || o.member > len(p.members) {
		return p.members[0]
	}
	return p.members[o.member-1]
}

// sharedRow is the name of the ledger's row for what the member's machines share.
func (m *member) sharedRow() string {
	if m.index == 0 {
		return sharedRow
	}
	return sharedRow + " " + m.key
}

// inGroup names the member where there are others, and is empty otherwise.
func (m *member) inGroup() string {
	if m.index == 0 {
		return ""
	}
	return m.provider
}

// keyOf returns the key of the member that has given a name, or nothing.
func (p *pool) keyOf(name string) string {
	for _, m := range p.members {
		if m.index > 0 && m.has(name) {
			return m.key
		}
	}
	return ""
}

// indexOf returns the member of a key, or 0, and providerOf the name of its provider.
func (p *pool) indexOf(key string) int {
	for _, m := range p.members {
		if m.key == key {
			return m.index
		}
	}
	return 0
}

func (p *pool) providerOf(key string) string {
	if key == "" {
		return p.provider
	}
	provider, _, _ := strings.Cut(key, ".")
	return provider
}

// capsOf says what the offer's provider can do.
func (p *pool) capsOf(o Offer) Capabilities { return p.memberOf(o).caps }

// member is who was last asked for a machine for the node, and caps what it can do.
func (n *poolNode) member() *member    { return cmp.Or(n.of.Load(), n.p.members[0]) }
func (n *poolNode) caps() Capabilities { return n.member().caps }
func (n *poolNode) provider() string   { return n.member().provider }
