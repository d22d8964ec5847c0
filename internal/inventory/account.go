package inventory

import (
	"cmp"
	"context"
	"slices"

	"github.com/gputrain/gputrain/internal/ledger"
	"github.com/gputrain/gputrain/internal/market"
	"github.com/gputrain/gputrain/providers/driver"
)

// An Account is a provider that is open.
type Account struct {
	Provider string // its name
	Driver   driver.Driver
	Caps     driver.Capabilities
}

// MayAdopt reports whether some of the machines may exist already.
func (a Account) MayAdopt() bool {
	for _, member := range a.Caps.Accounts {
		if member.Adopts {
			return true
		}
	}
	return a.Caps.Adopts
}

// OpenAccount opens a provider.
func OpenAccount(ctx context.Context, provider driver.Provider) (Account, error) {
	d, err := provider.Open(ctx)
	if err != nil {
		return Account{}, err
	}
	return Account{Provider: provider.Name(), Driver: d, Caps: d.Capabilities()}, nil
}

// EndsItself reports whether every machine of the account ends itself when its lease is over, costs nothing, or stays as it
// was found.
func (a Account) EndsItself() bool {
	if a.Caps.Free || a.Caps.Adopts {
		return true
	}
	if members := market.Members(a.Driver); members != nil {
		return !slices.ContainsFunc(members, func(d driver.Driver) bool { return !Account{Driver: d, Caps: d.Capabilities()}.EndsItself() })
	}
	return a.selfDestructs(driver.Instance{})
}

// providerOf returns the name of the provider of an account of a group, by the account's
// key, or of the account itself for an empty key.
func (a Account) providerOf(key string) string {
	if key == "" {
		return a.Provider
	}
	return market.ProviderOf(key)
}

// selfDestructs reports whether a machine can end itself.
func (a Account) selfDestructs(inst driver.Instance) bool {
	return market.SelfDestructs(a.Driver, inst)
}

// rowOf returns what the ledger keeps of a machine.
func rowOf(inst driver.Instance) ledger.Row {
	row := ledger.Row{
		Name: inst.Name, Kind: machineKind, Rank: inst.Rank, ID: inst.ID, Region: inst.Offer.Region, InstanceType: inst.Offer.InstanceType,
		Spot: inst.Offer.Spot, HostKeys: inst.SSH.HostKeys, Member: inst.Offer.Account,
	}
	if usd, known := inst.Offer.HourlyUSD.USD(); known {
		row.HourlyUSD = &usd
	}
	m := machine{inst: inst}
	row.BillingUnit, row.Bill = inst.Offer.BillingUnit, m.bill()
	return row
}

// machineOf returns the machine that a row of the ledger is about.
func (a Account) machineOf(row ledger.Row) *machine {
	inst := driver.Instance{ID: row.ID, Name: row.Name, Rank: row.Rank, Offer: driver.Offer{
		Provider: a.providerOf(row.Member), Account: row.Member, Capabilities: a.Caps.Accounts[row.Member],
		Region: row.Region, InstanceType: row.InstanceType, Spot: row.Spot, BillingUnit: row.BillingUnit,
	}}
	if row.HourlyUSD != nil {
		inst.Offer.HourlyUSD = driver.USD(*row.HourlyUSD)
	}
	m := &machine{inst: inst, launched: cmp.Or(row.Intended, row.Created), gone: row.Gone, leased: row.Root != ""}
	m.setBill(row.Bill)
	if m.began.IsZero() && m.inst.Offer.Billing.AfterLaunch {
		m.began = row.Leased // it has been up
	}
	return m
}
