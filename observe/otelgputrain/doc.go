// Package otelgputrain exports what an [observe.Recorder] records as OpenTelemetry's spans, metrics and logs.
//
//	spans := otelgputrain.Start(rec, otelgputrain.Config{}) // to OpenTelemetry's global providers
//	defer spans.Close()
//	pool, err := gputrain.Open(ctx, provider, spec, rec.Option(), spans.Option())
//
// # Spans
//
// Spans have the times of the events. They nest so:
//
//	gputrain.pool
//	├─ gputrain.node            one for each machine: a rank can have several, one after the other
//	│  └─ gputrain.phase        a build, or another phase without a node, is directly below the pool
//	├─ gputrain.task            from its submission to its end
//	│  └─ gputrain.attempt
//	└─ gputrain.transfer
//
// A failure has status Error, with the error's text; a task that was cancelled is not a failure. A span that was open at the end of
// its pool, or when the exporter was closed, has the attribute gputrain.unfinished. Retries are events of the task's span, and
// preemption notices of the node's. The cost of a node is its price times its life; that of a pool is what the pool reports.
//
// # Metrics
//
//	gputrain.nodes, .slots, .tasks                     how many there are: nodes by state, slots by use, tasks that wait and run
//	gputrain.task.ended, .task.retries, .node.lost     how many have been
//	gputrain.task.wait                                 seconds from submission to the first start
//	gputrain.task.duration                             seconds of the last attempt
//	gputrain.phase.duration, .node.ready.duration      seconds
//	gputrain.cost, .cost.rate, .cost.at_most           US dollars
//	gputrain.transfer.io                               bytes
//	hw.gpu.utilization, .memory.usage, .memory.limit   of the semantic conventions, where they are in development
//
// No attribute of a metric is an ID, so that their number does not grow with tasks or nodes. hw.id is the index of an accelerator on
// its node: nodes that agree in all attributes are one series, which has the mean of their utilization and the sum of their memory.
// gputrain.cost.at_most is missing while what the pools cost has no bound.
//
// # Logs
//
// Each event is a log record, in the context of its span. Failures have severity warn, progress and samples debug, and the rest
// info, as with gputrain.WithLogger: use one of the two. Lines that tasks and phases print are not exported.
package otelgputrain
