// Package observe records what pools do, for those who watch.
//
// A [Recorder] takes the events, the samples and the lines of one or several pools. Everything else shows what it has recorded:
// packages console (a live table in a terminal), status (a page in a browser), otelgputrain (OpenTelemetry's spans, metrics and
// logs) and report (a report, and a bundle that explains a failure).
//
//	rec, err := observe.New(observe.Config{File: "run.events"})
//	defer rec.Close()
//	defer console.Show(rec, os.Stderr).Close()
//	pool, err := gputrain.Open(ctx, provider, spec, rec.Option())
//
// With Config.File everything is in a file too, which [Read] reads, also after the program was killed.
package observe
