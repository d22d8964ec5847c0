// Seededfaults checks the tests of providers: it compiles a provider's source with one fault at a time, without
// changing the file, and checks that the conformance suite fails.
//
//	go run ./internal/test/seededfaults [provider...]
//
// The faults are in providers/*/testdata/seeded-faults.txt.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// limit bounds the suite's time with a fault. A fault that makes the suite hang counts as caught.
const limit = 2 * time.Minute

func main() {
	if err := check(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "seededfaults:", err)
		os.Exit(1)
	}
}

func check(providers []string) error {
	lists, err := filepath.Glob("providers/*/testdata/seeded-faults.txt")
	if err != nil {
		return err
	}
	var all []fault
	for _, list := range lists {
		dir := filepath.Dir(filepath.Dir(list))
		if len(providers) > 0 && !slices.Contains(providers, filepath.Base(dir)) {
			continue
		}
		faults, err := read(dir)
		if err != nil {
			return err
		}
		all = append(all, faults...)
	}
	if len(all) == 0 {
		return fmt.Errorf("no faults of %q: run it in the repository's root", providers)
	}
	tmp, err := os.MkdirTemp("", "seededfaults-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)

	survived := make([]string, len(all))
	var running sync.WaitGroup
	slots := make(chan struct{}, 4) // suites wait most of the time
	for i, f := range all {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			begun := time.Now()
			by, err := f.caught(filepath.Join(tmp, fmt.Sprint(i)))
			if err != nil {
				survived[i] = fmt.Sprintf("%s: %s: %v", f.provider, f.name, err)
				by = err.Error()
			}
			fmt.Printf("%-18s %-60s %4.0fs  %s\n", filepath.Base(f.provider), f.name, time.Since(begun).Seconds(), by)
		})
	}
	running.Wait()
	survived = slices.DeleteFunc(survived, func(s string) bool { return s == "" })
	if len(survived) > 0 {
		return fmt.Errorf("%d of %d faults are not caught:\n%s", len(survived), len(all), strings.Join(survived, "\n"))
	}
	fmt.Printf("%d faults, all caught\n", len(all))
	return nil
}

// caught returns the name of the check that fails with the fault.
func (f fault) caught(tmp string) (by string, err error) {
	source, err := f.seeded()
	if err != nil {
		return "", err
	}
	path, err := filepath.Abs(filepath.Join(f.provider, f.file))
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(tmp+".source", []byte(source), 0o600); err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{path: tmp + ".source"}})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(tmp+".json", overlay, 0o600); err != nil {
		return "", err
	}
	ctx, stop := context.WithTimeout(context.Background(), 2*limit) // includes the build
	defer stop()
	test := exec.CommandContext(ctx, "go", "test", "-count=1", "-failfast", "-vet=off", "-timeout", limit.String(), "-overlay", tmp+".json", "-run", f.run, "./"+f.provider)
	out, err := test.CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("no end within %v", 2*limit)
	case bytes.Contains(out, []byte("[build failed]")), bytes.Contains(out, []byte("[setup failed]")):
		return "", fmt.Errorf("it does not compile:\n%s", out)
	case bytes.Contains(out, []byte("[no tests to run]")):
		return "", fmt.Errorf("-run %s runs no test", f.run)
	case err == nil:
		return "", fmt.Errorf("-run %s passes", f.run)
	case bytes.Contains(out, []byte("panic: test timed out")):
		return "by its time", nil
	}
	return failed(string(out)), nil
}

// failed returns the name of the first innermost test that failed.
func failed(out string) string {
	var path string
	for line := range strings.Lines(out) {
		name, ok := strings.CutPrefix(strings.TrimSpace(line), "--- FAIL: ")
		if !ok {
			continue
		}
		name, _, _ = strings.Cut(name, " ")
		if path != "" && !strings.HasPrefix(name, path+"/") {
			break
		}
		path = name
	}
	return cmp.Or(path[strings.LastIndex(path, "/")+1:], "by the end of its program")
}
