// Testrun runs the tests: the lists of lists.txt, or go test.
//
//	go run ./internal/test/testrun                     the list test: before and after a change
//	go run ./internal/test/testrun -full [PART...]     what CI runs, or some parts of it
//	go run ./internal/test/testrun -full -beyond       what CI runs, without the parts of the list test
//	go run ./internal/test/testrun -deep [PART...]     what takes hours; it goes on where it was stopped
//	go run ./internal/test/testrun ARGUMENT...         one run of go test with these arguments, packages last: -race ./...
//
// It prints one line as each package ends, with the time so far, the output of tests that fail, and finally which tests
// were skipped and why. A test that fails runs a second time; if it passes then, it is reported as flaky, and the run fails
// all the same. The exit status is 1 if a test fails, or if GPUTRAIN_REQUIRE_ALL is set and a test skips that needs
// something which can be installed.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ok, err := runLists(ctx, os.Stdout, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func runLists(ctx context.Context, out io.Writer, args []string) (ok bool, err error) {
	l, err := readLists(table)
	if err != nil {
		return false, err
	}
	list, without := "test", ""
	if len(args) > 0 {
		switch args[0] {
		case "-full", "-deep":
			list, args = args[0][1:], args[1:]
			if at := slices.Index(args, "-beyond"); at >= 0 {
				args, without = slices.Delete(args, at, at+1), "test"
			}
		default:
			if args[0] == "--" {
				args = args[1:]
			}
			list, l.parts = "", []part{{lists: []string{""}, words: append([]string{"go", "test", "-timeout=30m"}, args...)}}
			args = nil
		}
	}
	parts, err := l.of(list, without, args)
	if err != nil {
		return false, err
	}
	m, err := readModule(l)
	if err != nil {
		return false, err
	}
	env, clean := inMemory()
	defer clean()
	start := time.Now()
	r := &runner{module: m, env: env, report: newReport(out, func() time.Duration { return time.Since(start) })}
	r.report.strict = os.Getenv(strictVariable) != ""
	if list == "deep" {
		r.log, r.again = openLog(), len(args) > 0
	}
	ok = r.run(ctx, parts)
	r.end(list)
	return ok && r.report.lacking == 0, ctx.Err()
}
