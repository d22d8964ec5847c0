// Package inventory manages what is made for pools and billed. An [Inventory] is that of one pool: it launches
// machines, finds out what unanswered calls have made, compares what it wants with what the provider lists, and ends
// everything. Every resource is in the pool's ledger (package ledger) from before the call that makes it until its
// provider confirms that it is gone. [Spending] is its cost. A [Reaper] ends what dead programs have left, and
// [Summarize] summarizes their ledgers.
package inventory
