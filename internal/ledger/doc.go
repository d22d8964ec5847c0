// Package ledger keeps on disk what programs are responsible for: every machine
// and whatever else a pool makes, written down before it is asked for and until
// its provider says that it is gone. A program that is killed at any moment
// leaves a ledger from which another can end what it made, or go on with it.
//
// Each pool has its files in a folder of the user's:
//
//	ID.ledger  what happened, one line of text each (package record), every line on disk before the call returns
//	ID.key     the pool's private login key: the only secret, and nowhere else
//	ID.tasks   what the pool keeps of its tasks; this package only names and removes it
//	ID.N.lock  held for as long as the program lives that was the Nth to take the pool
//	ID.lock    held while a program changes any of these
//
// A program is dead when the lock it took the pool with is free: the system
// frees it, whatever becomes of the program. Between machines that share the
// folder a lock may not be seen. So where the last owner was on another host (or
// on this one before it booted), the pool counts as in use until its lease has
// run out since the last line of its ledger: see [Ledger.Renew].
//
// A program finds out that another has taken its pool by looking at the files
// before each change. Files that were edited, replaced or removed by hand are
// told from that: they fence off nobody, and nothing is written to them.
package ledger
