// Package driver is the contract of a provider of machines, for authors of providers. Programs
// that only use providers need only package gputrain, which has this package's names that they
// need.
//
// A provider is a [Provider], a plain configuration, whose Open returns a [Driver] for one
// pool. The driver offers, launches, describes, lists and terminates machines; it knows nothing
// of SSH, of tasks or of the pool's nodes. The optional interfaces [Dialer], [Scripter],
// [Adviser], [Resumer] and [LeaseMarker], and its [Capabilities], declare what else its
// machines can do.
//
// Every failure is an [*Error] of a kind: see [ErrInvalid] and the others. Package
// providers/providertest checks a driver against this contract.
package driver
