// Package sim rents from clouds that are not there: for tests of programs that use
// gputrain, of what they do when a cloud fails them, and of gputrain itself.
//
//	cloud := sim.New(sim.Options{Seed: 7, BootTime: 30 * time.Second})
//	defer cloud.Close()
//	pool, err := gputrain.Open(ctx, sim.Config{Cloud: cloud}, gputrain.Spec{Nodes: 4})
//	...
//	cloud.Live()    // what is still there, and would be billed
//	cloud.Log()     // every call, what was done, what was answered
//
// A [Cloud] has offers with regions, prices and stock, machines, networks and
// keys, and an API that a driver calls as that of a real cloud does: over calls
// that can fail, lag and lie, and knowing nothing but what they answer. The zero
// [Config] rents from one that the whole program shares and that works.
//
// # At a glance
//
//   - GPUs: clouds that are simulated, for tests: faults by script or by seed, prices, preemption,
//     virtual time.
//   - Spot: yes.
//   - Regions: simulated.
//   - Credentials: nothing.
//   - Billing: simulated; ended by terminate.
//   - Private network: yes.
//   - Ends itself: yes, by its lease.
//   - Host key pinned by: the pool's own key.
//   - Tags: yes.
//   - Tried against: itself: its nodes answer as the real scripts do.
//
// # What goes wrong
//
// A [Fault] says what goes wrong with which calls: [ErrorAfter] does what is
// asked and answers with an error, [Lost] does it and cuts the connection,
// [Duplicate] launches twice and tells of one, and so on. [Random] makes such up from a
// seed. [Cloud.Outage] is an API that does not answer at all, [Cloud.Cut] a
// network that does not reach the machines. Machines are slow to boot
// (Options.BootTime), are taken back ([Cloud.Preempt]), vanish ([Cloud.Vanish]),
// or cannot be reached though the cloud says that they run ([Cloud.Break]).
//
// # Machines
//
// A machine is an SSH server. Its tasks are real processes of this computer, as
// those of providers/local are, each machine with a home directory of its own. A
// machine whose lease or TTL has run out removes its home, which is its end.
//
// With Options.Exec its tasks are calls of a Go function instead. Nothing of it
// is outside this program then, no process, file or socket, so that a whole pool,
// from Open to Close, can run inside a bubble of testing/synctest, where hours
// take no time. Leases, timeouts and cancelling work as on a real node; functions
// and copying files do not.
//
// # Clients that die
//
// A cloud can be served to other programs with [Cloud.Serve]: they rent from it
// with Config.Endpoint and can be killed, while the cloud and its machines live on.
//
// # What it costs
//
// Machines are billed from their launch to their end, in whole units of the
// offer's BillingUnit: [Cloud.BilledUSD]. It is play money.
package sim
