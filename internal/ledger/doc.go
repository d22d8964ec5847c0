// Package ledger records on disk what programs are responsible for: every machine, and everything
// else that a pool makes, from before the provider is asked for it until the provider says that it
// is gone. If a program is killed at any moment, another program can end what it made, or resume
// the pool, from the ledger.
//
// Each pool has its files in a folder of the user:
//
//	ID.ledger  one line of text for each change (package record), on disk before the call returns
//	ID.key     the pool's private login key: the only secret, and in no other file
//	ID.tasks   the journal of the pool's tasks; this package only names and removes it
//	ID.N.lock  held by the Nth program that took the pool, as long as it lives
//	ID.lock    held while a program changes any of these files
//
// A program is dead if the lock with which it took the pool is free: the system frees it however
// the program ends. Between machines that share the folder, locks may not be visible. So if the
// last owner was on another host (or on this one before it booted), the pool counts as in use until
// its lease has run out since the last line of its ledger: see [Ledger.Renew].
//
// Before each change a program checks the files, and so notices if another program has taken its
// pool. Files that were edited, replaced or removed by hand are a different case: they fence off no
// program, and nothing is written to them.
package ledger
