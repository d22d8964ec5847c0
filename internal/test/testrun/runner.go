package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// A runner runs parts, and reports on them.
type runner struct {
	module *module
	report *report
	log    *deepLog // nil except for the list deep
	again  bool     // also parts that the log says have passed
	env    []string

	mu     sync.Mutex
	failed []string // parts, in the order in which they ended
	times  []string // of parts
}

// run runs the parts, and then the tests that failed a second time. It reports whether all passed the first time.
func (r *runner) run(ctx context.Context, parts []part) bool {
	besides := map[string][]chan struct{}{}
	for i, p := range parts {
		if ctx.Err() != nil {
			break
		}
		if slices.ContainsFunc(parts[i:], func(q part) bool { return q.name == p.beside }) {
			ended := make(chan struct{})
			besides[p.beside] = append(besides[p.beside], ended)
			go func() {
				defer close(ended)
				r.part(ctx, p)
			}()
		} else {
			r.part(ctx, p)
		}
		for _, ended := range besides[p.name] {
			<-ended
		}
		delete(besides, p.name)
	}
	for _, all := range besides {
		for _, ended := range all {
			<-ended
		}
	}
	if ctx.Err() == nil {
		r.secondTry(ctx)
	}
	return len(r.failed) == 0 && ctx.Err() == nil
}

// part runs one part.
func (r *runner) part(ctx context.Context, p part) {
	if r.log != nil && !r.again {
		if line := r.log.passed(p.name); line != "" {
			r.report.say("%s: passed before: %s", p.name, line)
			return
		}
	}
	start := time.Now()
	before := r.report.counts()
	ok, err := r.do(ctx, p)
	took := time.Since(start)
	if err != nil {
		r.report.say("%s: %v", p.name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	result := "passed"
	if !ok || err != nil {
		result = "FAILED"
		r.failed = append(r.failed, p.name)
	}
	r.times = append(r.times, fmt.Sprintf("%7s  %-10s %s", clock(took), p.name, result))
	if r.log != nil && ctx.Err() == nil {
		if err := r.log.add(p.name, result, took, r.report.counts().since(before)); err != nil {
			r.report.say("the log: %v", err)
		}
	}
}

// do runs the command of a part.
func (r *runner) do(ctx context.Context, p part) (ok bool, err error) {
	switch {
	case p.words[0] == "@image":
		return r.image(ctx)
	case p.words[0] == "@fuzz":
		return r.fuzz(ctx, p.words[1])
	case len(p.words) > 1 && p.words[0] == "go" && p.words[1] == "test":
		args, err := r.module.arguments(p.words[2:])
		if err != nil || !namesPackage(args) {
			return err == nil, err // for example if nothing has changed
		}
		return r.goTest(ctx, p.name, p.env, args)
	}
	words, err := r.module.arguments(p.words)
	if err != nil {
		return false, err
	}
	out, err := r.command(ctx, p.env, words...)
	r.report.command(p, out, err)
	return err == nil, nil
}

// arguments returns the words of a command with those expanded that begin with @.
func (m *module) arguments(words []string) (all []string, err error) {
	for _, w := range words {
		if !strings.HasPrefix(w, "@") {
			all = append(all, w)
			continue
		}
		expanded, err := m.expand(w)
		if err != nil {
			return nil, err
		}
		all = append(all, expanded...)
	}
	return all, nil
}

// namesPackage reports whether the arguments of go test name a package of this module.
func namesPackage(args []string) bool { return slices.ContainsFunc(args, isPackage) }

func isPackage(arg string) bool {
	return arg == "." || strings.HasPrefix(arg, "./") || strings.HasPrefix(arg, modulePath)
}

// goTest runs go test. Tests wait more than they compute, so three times as many packages run at a time as there are cores.
func (r *runner) goTest(ctx context.Context, part string, env, args []string) (ok bool, err error) {
	args = append([]string{"test", "-json", "-vet=off", "-ldflags=-w", "-timeout=20m", fmt.Sprint("-p=", 3*runtime.NumCPU())}, args...)
	r.report.expect(args)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(append(os.Environ(), r.env...), env...)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return false, err
	}
	interrupt := group(cmd)
	cmd.Cancel = func() error { interrupt(); return nil }
	if err := cmd.Start(); err != nil {
		return false, err
	}
	ok = read(stdout, r.report, run{part, env, args})
	err = cmd.Wait()
	if _, exited := errors.AsType[*exec.ExitError](err); exited {
		return false, nil // the report shows the reason
	}
	return ok && err == nil, err
}

// read passes each event to the report, and reports whether no package failed. It prints a line that is not an event.
func read(from io.Reader, r *report, of run) bool {
	in := bufio.NewReader(from)
	ok := true
	for {
		line, err := in.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) == nil && e.Action != "" {
				ok = r.add(of, e) && ok
			} else {
				r.say("%s", strings.TrimSuffix(line, "\n"))
			}
		}
		if err != nil {
			return ok
		}
	}
}

// command runs a command that is not go test, and returns what it printed.
func (r *runner) command(ctx context.Context, env []string, words ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Env = append(append(os.Environ(), r.env...), env...)
	interrupt := group(cmd)
	cmd.Cancel = func() error { interrupt(); return nil }
	return cmd.CombinedOutput()
}

// secondTry runs the tests that have failed once more, each package for itself. A test that passes then is flaky: it is to be
// mended before anything else.
func (r *runner) secondTry(ctx context.Context) {
	for _, f := range r.report.takeFailures() {
		if len(f.tests) == 0 {
			continue // the package does not compile, or failed outside of a test
		}
		var pattern []string
		for _, t := range f.tests {
			pattern = append(pattern, exactly(t))
		}
		var args []string
		for i := 0; i < len(f.run.args); i++ {
			switch a := f.run.args[i]; {
			case a == "-run" || a == "-skip":
				i++
			case a == "test" || a == "-json" || isPackage(a):
			default:
				args = append(args, a)
			}
		}
		args = append(args, "-count=1", "-run", strings.Join(pattern, "|"), f.pkg)
		r.report.say("\nonce more: %s %s", short(f.pkg), strings.Join(f.tests, " "))
		again, err := r.goTest(ctx, f.run.part, f.run.env, args)
		switch {
		case err != nil:
			r.report.say("%v", err)
		case again:
			r.report.flaky = append(r.report.flaky, f)
		}
	}
	r.report.takeFailures()
}

// end prints the report's end, what the list has left out, and how long each part took.
func (r *runner) end(list string) {
	r.report.end()
	if all := r.module.leftOut(); list == "test" && len(all) > 0 {
		r.report.say("\nunchanged since %s, so that only a smoke test of each ran; scripts/test -full runs all of\n  %s", r.module.base, strings.Join(all, " "))
	}
	if len(r.times) > 1 {
		r.report.say("\n%s", strings.Join(r.times, "\n"))
	}
	r.report.endReasons()
}
