package main

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
)

// An event is a line of go test -json.
type event struct {
	Action, Package, Test, Output, ImportPath, FailedBuild string
	Elapsed                                                float64
}

// A report is printed while tests run.
type report struct {
	out     io.Writer
	elapsed func() time.Duration
	total   int  // number of packages; 0 if unknown
	strict  bool // a test that skips because the machine lacks something counts as failed

	done, failed int
	lacking      int // number of such tests, if strict
	passed       int // number of tests, not counting subtests
	output       map[string]*strings.Builder
	failedTests  map[string][]string // of running packages, in the order in which they failed
	skipped      map[string][]string // tests by reason
	long         []skippedTest       // tests that only scripts/test -long runs
}

// A skippedTest is a test or subtest.
type skippedTest struct{ pkg, name string }

func newReport(out io.Writer, elapsed func() time.Duration, total int) *report {
	return &report{
		out: out, elapsed: elapsed, total: total,
		output: map[string]*strings.Builder{}, failedTests: map[string][]string{}, skipped: map[string][]string{},
	}
}

// add adds an event.
func (r *report) add(e event) {
	key := e.Package + " " + e.Test
	switch {
	case e.Action == "build-output":
		fmt.Fprint(r.out, e.Output)
	case e.Action == "output":
		b := r.output[key]
		if b == nil {
			b = &strings.Builder{}
			r.output[key] = b
		}
		b.WriteString(e.Output)
	case e.Test == "":
		r.packageEnds(e)
	case e.Action == "pass":
		if !strings.Contains(e.Test, "/") {
			r.passed++
		}
		delete(r.output, key)
	case e.Action == "skip":
		why, name := reason(r.text(key)), short(e.Package)+" "+e.Test
		if strings.HasPrefix(why, inapplicable) {
			why = inapplicableChecks
		} else if detail, is := strings.CutPrefix(why, waitsForLong); is {
			why, name = longTests, name+" ("+detail+")"
			r.long = append(r.long, skippedTest{e.Package, e.Test})
		}
		if r.strict && !isByDesign(why) {
			r.lacking++
		}
		r.skipped[why] = append(r.skipped[why], name)
		delete(r.output, key)
	case e.Action == "fail":
		r.failedTests[e.Package] = append(r.failedTests[e.Package], e.Test)
	}
}

func (r *report) packageEnds(e event) {
	if e.Action != "pass" && e.Action != "fail" && e.Action != "skip" {
		return
	}
	r.done++
	own := r.text(e.Package + " ")
	word := "ok"
	switch {
	case e.Action == "fail":
		word = "FAIL"
		r.failed++
	case e.Action == "skip":
		word = "-" // no tests
	case strings.Contains(own, "(cached)"):
		word = "cached"
	}
	of := fmt.Sprint(r.done)
	if r.total > 0 {
		of = fmt.Sprintf("%d/%d", r.done, r.total)
	}
	if word != "-" {
		fmt.Fprintf(r.out, "%6s %7s  %-6s %-44s %6.1fs\n", clock(r.elapsed()), of, word, short(e.Package), e.Elapsed)
	}
	if e.Action == "fail" {
		r.printFailure(e.Package, own)
	}
	for key := range r.output {
		if strings.HasPrefix(key, e.Package+" ") {
			delete(r.output, key)
		}
	}
	delete(r.failedTests, e.Package)
}

// printFailure prints the output of the failed tests, and then the package's output outside of tests. It also prints
// the output of tests that had not ended, for example because the package panicked.
func (r *report) printFailure(pkg, own string) {
	tests := slices.Clone(r.failedTests[pkg])
	var open []string
	for key := range r.output {
		name, is := strings.CutPrefix(key, pkg+" ")
		if is && name != "" && !slices.Contains(tests, name) {
			open = append(open, name)
		}
	}
	slices.Sort(open)
	for _, test := range append(tests, open...) {
		fmt.Fprint(r.out, indented(r.text(pkg+" "+test)))
	}
	fmt.Fprint(r.out, indented(own))
}

// end prints the skipped tests, the most frequent reasons first.
func (r *report) end() {
	fmt.Fprintf(r.out, "\ntests passed: %d, in %d packages, in %s", r.passed, r.done-r.failed, clock(r.elapsed()))
	if r.failed > 0 {
		fmt.Fprintf(r.out, "; packages FAILED: %d", r.failed)
	}
	if r.lacking > 0 {
		fmt.Fprintf(r.out, "; tests SKIPPED that must run, as %s is set: %d", strictVariable, r.lacking)
	}
	fmt.Fprintln(r.out)
	if len(r.skipped) == 0 {
		return
	}
	var reasons []string
	for why := range r.skipped {
		reasons = append(reasons, why)
	}
	slices.SortFunc(reasons, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(r.skipped[b]), len(r.skipped[a])), strings.Compare(a, b))
	})
	fmt.Fprintln(r.out, "skipped:")
	for _, why := range reasons {
		tests := r.skipped[why]
		slices.Sort(tests)
		named := strings.Join(tests[:min(3, len(tests))], ", ")
		if len(tests) > 3 {
			named += ", ..."
		}
		plural := "s"
		if len(tests) == 1 {
			plural = ""
		}
		fmt.Fprintf(r.out, "  %d test%s: %s\n      %s\n", len(tests), plural, why, named)
	}
}

func (r *report) text(key string) string {
	if b := r.output[key]; b != nil {
		return b.String()
	}
	return ""
}

// The reasons under which the report lists skipped tests that share one.
const (
	inapplicableChecks = "checks of the conformance suite that do not apply to a provider: Harness.Without says why"
	longTests          = "scripts/test -long runs them"
)

// strictVariable is the environment variable that makes a report strict.
const strictVariable = "GPUTRAIN_REQUIRE_ALL"

// byDesign are the beginnings of the reasons that are the same on every machine that CI uses: it has
// one container engine, no GPU, no account at a cloud, and nothing but Debian's packages.
var byDesign = []string{
	inapplicableChecks,
	longTests,
	"GPUTRAIN_LIVE does not set",
	"moto is not installed",
	"the Kubernetes testbed is not built here",
	"scripts/kubernetes-test runs it",
	"no podman here",
	"this machine has no NVIDIA GPU",
	"a stream has one node at its other end",
	"the runner does one thing after the other",
}

func isByDesign(why string) bool {
	return slices.ContainsFunc(byDesign, func(prefix string) bool { return strings.HasPrefix(why, prefix) })
}

// inapplicable begins the conformance suite's reason for skipping a check that does not apply to a provider.
const inapplicable = "not for this provider: "

// waitsForLong begins the reason for skipping a test that takes too long for every run.
const waitsForLong = "scripts/test -long runs it: "

var (
	logged  = regexp.MustCompile(`(?m)^ +[A-Za-z0-9_.-]+\.go:\d+: `)
	endings = regexp.MustCompile(`(?m)^ *(=== (RUN|PAUSE|CONT|NAME).*|--- SKIP: .*)\n?`)
)

// reason returns the last log line of a skipped test.
func reason(output string) string {
	text := endings.ReplaceAllString(output, "")
	at := logged.FindAllStringIndex(text, -1)
	if len(at) == 0 {
		return "no reason given"
	}
	return strings.Join(strings.Fields(text[at[len(at)-1][1]:]), " ")
}

// short returns a package's path within this module.
func short(pkg string) string {
	const module = "github.com/gputrain/gputrain"
	if pkg == module {
		return "."
	}
	return strings.TrimPrefix(pkg, module+"/")
}

func clock(d time.Duration) string {
	s := int(d.Round(time.Second).Seconds())
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

func indented(text string) string {
	if text == "" {
		return ""
	}
	return "        " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n        ") + "\n"
}
