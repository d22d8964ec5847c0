package driver

// A Billing is how a provider bills the time of a machine, beside Offer.BillingUnit. The zero value
// bills it from the call that launches it, and gives nothing back.
type Billing struct {
	// AfterLaunch is true if billing begins later than the launch: once Describe reports the machine
	// without Instance.Unbilled. A machine that never comes that far is free.
	AfterLaunch bool
	// FromLaunch is the part of the price, by its name in Offer.Parts, that is billed from the launch
	// nevertheless, such as the disk. Empty means that there is none.
	FromLaunch string
	// Refunds is true if units of billing are paid in advance, and the unused rest of the last one is
	// given back at the machine's end.
	Refunds bool
}
