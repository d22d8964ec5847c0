// Testreport runs go test. It prints one line as each package ends, with the time so far, the
// output of tests that fail, and finally which tests were skipped and why.
//
//	go run ./internal/test/testreport [ARGUMENT...]
//
// Arguments are those of go test, with packages last, as in "-race ./...". It exits with
// status 1 if go test fails, or if GPUTRAIN_REQUIRE_ALL is set and a test skips that needs
// something which can be installed.
//
// If GPUTRAIN_SKIPPED names a file, testreport writes into it the tests that only scripts/test -long
// runs: for each package its path, and a pattern for go test -run, each ended by a zero byte.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	signal.Notify(make(chan os.Signal, 1), os.Interrupt, syscall.SIGTERM) // they end go test, and then this program
	ok, err := run(os.Stdout, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// run runs go test, and reports whether all tests passed.
func run(out io.Writer, args []string) (ok bool, err error) {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return false, err
	}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return false, err
	}
	r := newReport(out, func() time.Duration { return time.Since(start) }, countPackages(args))
	r.strict = os.Getenv(strictVariable) != ""
	read(stdout, r)
	err = cmd.Wait()
	r.end()
	if name := os.Getenv(skippedVariable); name != "" {
		if err := os.WriteFile(name, patterns(r.long), 0o644); err != nil {
			return false, err
		}
	}
	if _, exited := errors.AsType[*exec.ExitError](err); exited {
		return false, nil // the report shows the reason
	}
	return err == nil && r.failed == 0 && r.lacking == 0, err
}

// read passes each event to the report. It prints a line that is not an event.
func read(from io.Reader, r *report) {
	in := bufio.NewReader(from)
	for {
		line, err := in.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) == nil && e.Action != "" {
				r.add(e)
			} else {
				fmt.Fprint(r.out, line)
			}
		}
		if err != nil {
			return
		}
	}
}

// skippedVariable is the environment variable that names the file for skipped tests.
const skippedVariable = "GPUTRAIN_SKIPPED"

// patterns returns, for each package, its path and a pattern that selects its tests, each ended by a zero byte.
func patterns(tests []skippedTest) []byte {
	byPackage := map[string][]string{}
	for _, t := range tests {
		elements := strings.Split(t.name, "/")
		for i, e := range elements {
			elements[i] = "^" + regexp.QuoteMeta(e) + "$"
		}
		byPackage[t.pkg] = append(byPackage[t.pkg], strings.Join(elements, "/"))
	}
	var b bytes.Buffer
	for _, pkg := range slices.Sorted(maps.Keys(byPackage)) {
		fmt.Fprintf(&b, "%s\x00%s\x00", pkg, strings.Join(byPackage[pkg], "|"))
	}
	return b.Bytes()
}

// modulePath begins the import path of each package of this module.
const modulePath = "github.com/gputrain/gputrain"

// countPackages returns how many packages the arguments name, or 0 if go list fails.
func countPackages(args []string) int {
	var named []string
	for _, a := range args {
		if strings.HasPrefix(a, "./") || a == "." || strings.HasPrefix(a, modulePath) {
			named = append(named, a)
		}
	}
	if len(named) == 0 {
		return 0
	}
	out, err := exec.Command("go", append([]string{"list"}, named...)...).Output()
	if err != nil {
		return 0
	}
	return strings.Count(string(out), "\n")
}
