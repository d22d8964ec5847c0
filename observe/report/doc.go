// Package report writes what a [observe.Recorder] knows into files: a report of a run, and a bundle that explains a failure.
//
//	err := report.WriteHTML("run.html", rec.Run())
//	run, err := observe.Read("run.events") // of an earlier program, even if it was killed
//	err = report.WriteMarkdown("run.md", run)
//
// A report has what the run has cost by node, by task name and by what the nodes did, a timeline, the use of the machines, the
// failures with their last lines, the slowest phases, the retries and the offers that were tried. The HTML is one file without
// scripts, which refers to nothing outside of it. JSON has everything that a [observe.Run] has.
//
// [WriteBundle] writes a zip for the person who looks into a failure, here or elsewhere: it starts with CAUSE.txt.
//
// Each file is written beside its name and then renamed, so that no reader sees half of it, and only this user can read it
// (mode 0600). A file of that name is replaced.
package report
