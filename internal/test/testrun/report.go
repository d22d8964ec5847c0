package main

import (
	"cmp"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// modulePath begins the import path of each package of this module.
const modulePath = "github.com/gputrain/gputrain"

// An event is a line of go test -json.
type event struct {
	Action, Package, Test, Output, ImportPath, FailedBuild string
	Elapsed                                                float64
}

// A run is one run of go test.
type run struct {
	part string   // of the list; part of the key of what the run prints, as two parts can run one package at the same time
	env  []string // NAME=VALUE
	args []string // of go
}

// A report is printed while tests run. Its methods may be called concurrently.
type report struct {
	elapsed func() time.Duration
	strict  bool // a test that skips because the machine lacks something counts as failed

	mu           sync.Mutex
	out          io.Writer
	total        int // number of packages that are expected
	done, failed int
	lacking      int // number of such tests, if strict
	passed       int // number of tests, not counting subtests
	skips        int // number of tests and subtests that were skipped
	output       map[string]*strings.Builder
	failedTests  map[string][]string // of running packages, in the order in which they failed
	skipped      map[string][]string // tests by reason
	failures     []failure           // packages
	flaky        []failure           // whose tests passed the second time
	reasons      []string            // why the run as a whole has failed, a line each
}

// A failure is a package that failed, and its tests that failed, without subtests.
type failure struct {
	run   run
	pkg   string
	tests []string
}

func newReport(out io.Writer, elapsed func() time.Duration) *report {
	return &report{
		out: out, elapsed: elapsed,
		output: map[string]*strings.Builder{}, failedTests: map[string][]string{}, skipped: map[string][]string{},
	}
}

// say prints a line.
func (r *report) say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.out, format+"\n", args...)
}

// A count is what a report has counted so far.
type count struct{ passed, skipped int }

func (r *report) counts() count {
	r.mu.Lock()
	defer r.mu.Unlock()
	return count{r.passed, r.skips}
}

// since returns in words what was counted since another count. Parts that run beside each other are counted in each.
func (c count) since(before count) string {
	return fmt.Sprintf("%d tests passed, %d skipped", c.passed-before.passed, c.skipped-before.skipped)
}

// takeFailures returns the packages that failed since the last call.
func (r *report) takeFailures() []failure {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.failures
	r.failures = nil
	return all
}

// expect adds the packages with tests that the arguments of go test name to the number that the report expects.
func (r *report) expect(args []string) {
	named := slices.DeleteFunc(slices.Clone(args), func(a string) bool { return !isPackage(a) })
	if len(named) == 0 {
		return
	}
	out, err := exec.Command("go", append([]string{"list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}x{{end}}"}, named...)...).Output()
	if err != nil {
		return // go test says why
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.total += strings.Count(string(out), "x")
}

// add adds an event. It returns false if it says that a package failed.
func (r *report) add(of run, e event) (ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pkg := of.part + " " + e.Package
	key := pkg + " " + e.Test
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
		r.packageEnds(of, e)
		return e.Action != "fail"
	case e.Action == "pass":
		if !strings.Contains(e.Test, "/") {
			r.passed++
		}
		delete(r.output, key)
	case e.Action == "skip":
		why, name := reason(r.text(key)), short(e.Package)+" "+e.Test
		if strings.HasPrefix(why, inapplicable) {
			why = inapplicableChecks
		} else if detail, is := strings.CutPrefix(why, waitsForDeep); is {
			why, name = deepTests, name+" ("+detail+")"
		}
		if r.strict && !isByDesign(why) {
			r.lacking++
			r.because("must not skip, as "+strictVariable+" is set", of.part, name, why)
		}
		r.skips++
		r.skipped[why] = append(r.skipped[why], name)
		delete(r.output, key)
	case e.Action == "fail":
		r.failedTests[pkg] = append(r.failedTests[pkg], e.Test)
	}
	return true
}

func (r *report) packageEnds(of run, e event) {
	if e.Action != "pass" && e.Action != "fail" && e.Action != "skip" {
		return
	}
	pkg := of.part + " " + e.Package
	own := r.text(pkg + " ")
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
	if word != "-" {
		r.done++
		r.total = max(r.total, r.done)
		fmt.Fprintf(r.out, "%6s %7s  %-9s %-6s %-40s %6.1fs\n", clock(r.elapsed()), fmt.Sprintf("%d/%d", r.done, r.total), of.part, word, short(e.Package), e.Elapsed)
	}
	if e.Action == "fail" {
		text := r.failureText(pkg, own)
		var tests []string
		known := len(r.reasons)
		for _, t := range r.failedTests[pkg] {
			if !strings.Contains(t, "/") {
				tests = append(tests, t)
			}
			if why := reason(r.text(pkg + " " + t)); why != noReason {
				r.because("FAILED", of.part, short(e.Package)+" "+t, why)
			}
		}
		if len(r.reasons) == known { // it panicked, or does not compile: the first words say so
			r.because("FAILED", of.part, strings.Join(append([]string{short(e.Package)}, tests...), " "), strings.Join(strings.Fields(text), " "))
		}
		r.failures = append(r.failures, failure{of, e.Package, tests})
		fmt.Fprint(r.out, text)
	}
	for key := range r.output {
		if strings.HasPrefix(key, pkg+" ") {
			delete(r.output, key)
		}
	}
	delete(r.failedTests, pkg)
}

// command reports how a command of a part ended that is not go test.
func (r *report) command(p part, out []byte, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	word, text := "ok", strings.TrimSpace(string(out))
	if err != nil {
		word = "FAIL"
		r.because("FAILED", p.name, strings.Join(p.words, " "), text[strings.LastIndexByte(text, '\n')+1:]+": "+err.Error())
		text = fmt.Sprintf("%s\n%v", text, err)
	} else {
		text = text[strings.LastIndexByte(text, '\n')+1:]
	}
	fmt.Fprintf(r.out, "%6s %7s  %-9s %-6s %s\n%s", clock(r.elapsed()), "", p.name, word, strings.Join(p.words, " "), indented(text))
}

// because keeps a reason why the run has failed, for the report's last lines: CI shows those alone.
func (r *report) because(what, part, who, why string) {
	if len(why) > 300 {
		why = strings.ToValidUTF8(why[:300], "") + " ..."
	}
	r.reasons = append(r.reasons, fmt.Sprintf("%s: %s: %s: %s", what, part, who, why))
}

// endReasons prints why the run has failed.
func (r *report) endReasons() {
	if len(r.reasons) > 0 {
		fmt.Fprintf(r.out, "\n%s\n", strings.Join(r.reasons, "\n"))
	}
}

// failureText returns the output of the failed tests, and then the package's output outside of tests. It also has the output of
// tests that had not ended, for example because the package panicked.
func (r *report) failureText(pkg, own string) string {
	tests := slices.Clone(r.failedTests[pkg])
	var open []string
	for key := range r.output {
		name, is := strings.CutPrefix(key, pkg+" ")
		if is && name != "" && !slices.Contains(tests, name) {
			open = append(open, name)
		}
	}
	slices.Sort(open)
	var text strings.Builder
	for _, test := range append(tests, open...) {
		text.WriteString(indented(r.text(pkg + " " + test)))
	}
	text.WriteString(indented(own))
	return text.String()
}

// end prints what was counted, the flaky tests, and the skipped tests, the most frequent reasons first.
func (r *report) end() {
	fmt.Fprintf(r.out, "\ntests passed: %d, in %d packages, in %s", r.passed, r.done-r.failed, clock(r.elapsed()))
	if r.failed > 0 {
		fmt.Fprintf(r.out, "; packages FAILED: %d", r.failed)
	}
	if r.lacking > 0 {
		fmt.Fprintf(r.out, "; tests SKIPPED that must run, as %s is set: %d", strictVariable, r.lacking)
	}
	fmt.Fprintln(r.out)
	for _, f := range r.flaky {
		fmt.Fprintf(r.out, "FLAKY: failed, and passed the second time (its output is above): %s %s\n", short(f.pkg), strings.Join(f.tests, " "))
	}
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
	deepTests          = "scripts/test -deep runs them"
)

// strictVariable is the environment variable that makes a report strict.
const strictVariable = "GPUTRAIN_REQUIRE_ALL"

// byDesign are the beginnings of the reasons that are the same on every machine that CI uses: it has
// one container engine, no GPU, no account at a cloud, and nothing but Debian's packages.
var byDesign = []string{
	inapplicableChecks,
	deepTests,
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

// waitsForDeep begins the reason for skipping a test that takes too long for every run.
const waitsForDeep = "scripts/test -deep runs it: "

var (
	logged  = regexp.MustCompile(`(?m)^ +[A-Za-z0-9_.-]+\.go:\d+: `)
	endings = regexp.MustCompile(`(?m)^ *(=== (RUN|PAUSE|CONT|NAME).*|--- (SKIP|FAIL): .*)\n?`)
)

const noReason = "no reason given"

// reason returns the last log line of a test.
func reason(output string) string {
	text := endings.ReplaceAllString(output, "")
	at := logged.FindAllStringIndex(text, -1)
	if len(at) == 0 {
		return noReason
	}
	return strings.Join(strings.Fields(text[at[len(at)-1][1]:]), " ")
}

// short returns a package's path within this module.
func short(pkg string) string {
	if pkg == modulePath {
		return "."
	}
	return strings.TrimPrefix(pkg, modulePath+"/")
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
