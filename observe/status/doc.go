// Package status shows what a [observe.Recorder] knows in a browser, and to programs by HTTP.
//
//	page, err := status.Serve(rec, "127.0.0.1:0")
//	defer page.Close()
//	fmt.Println("status:", page.URL())
//
// [Serve] listens by itself and lets in only those who have its URL. [Handler] is for a server that the program has already.
// Both only read: nothing in them changes a pool, and they send nothing but what is in [observe.Run], which has no values of
// secrets. They answer GET and HEAD:
//
//   - / is a page that follows the run. It loads nothing from elsewhere.
//   - /run.json is the Run as JSON, as report.WriteJSON writes it. Names in it stay. Times are RFC 3339 in UTC and left out if they
//     are zero, durations seconds, and numbers that are not known null. With the parameters pool and task it has that one task,
//     with node and phase the phases of that name on the node with that key, and with failure the failures with that seq:
//     everything else is then left out.
//   - /events is a stream of server-sent events: first a "run", which is run.json without lines, stacks, attempts, loads and
//     costs of nodes, then at most two "update" a second, with the parts that have changed and, in "gone", the keys of those that
//     are not kept any more. The id of an event is Run.Seq. A client that comes back with Last-Event-ID gets what has changed
//     since then, or a "run" if that is not known. A client that does not read for ten seconds is disconnected.
//   - /metrics has the metrics of package otelgputrain in the text format of Prometheus. No label is an ID.
package status
