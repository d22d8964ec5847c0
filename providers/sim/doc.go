// Package sim rents from simulated clouds: for tests of programs that use gputrain, of their
// behaviour when a cloud fails, and of gputrain itself.
//
//	cloud := sim.New(sim.Options{Seed: 7, BootTime: 30 * time.Second})
//	defer cloud.Close()
//	pool, err := gputrain.Open(ctx, sim.Config{Cloud: cloud}, gputrain.Spec{Nodes: 4})
//	...
//	cloud.Live()    // what is still there, and would be billed
//	cloud.Log()     // every call, what was done, what was answered
//
// A [Cloud] has offers with regions, prices and stock; machines, networks and keys; and an API.
// A driver calls it like a real cloud's: calls can fail, lag and lie, and the driver knows only
// their answers. The zero [Config] rents from a cloud that the whole program shares and that
// has no faults.
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
// A [Fault] is a rule for faults of certain calls: [ErrorAfter] executes the call and answers
// with an error, [Lost] executes it and cuts the connection, [Duplicate] launches twice and
// reports one machine, and so on. [Random] generates faults from a seed. With [Cloud.Outage]
// the API does not answer at all; with [Cloud.Cut] the network does not reach the machines.
// Machines can boot slowly (Options.BootTime), be preempted ([Cloud.Preempt]), vanish
// ([Cloud.Vanish]), or be unreachable while the cloud reports that they run ([Cloud.Break]).
//
// # Machines
//
// A machine is an SSH server. Its tasks are real processes of this computer, like those of
// providers/local, and each machine has its own home directory. A machine whose lease or TTL
// has run out removes its home, which ends it, unless Options.NoSelfDestruct is set.
//
// With Options.Exec its tasks are calls of a Go function instead. Then the machine uses no
// process, file or socket, so that a whole pool, from Open to Close, can run inside a bubble of
// testing/synctest, where hours take no time. Leases, timeouts, cancelling and trainings work as
// on a real node; functions and copying files do not.
//
// # Clients that die
//
// [Cloud.Serve] serves a cloud to other programs. They rent from it with Config.Endpoint and
// can be killed, while the cloud and its machines live on.
//
// # What it costs
//
// Machines are billed from their launch to their end, in whole units of the offer's
// BillingUnit: see [Cloud.BilledUSD]. No real money is involved.
package sim
