//go:build unix

package crash

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

// recite prints a line, creates the file NAME.begun, waits for the file NAME.go, and prints another line. The files are
// in the shared folder.
var recite = gputrain.Func("attach/recite", func(ctx context.Context, name string) (string, error) {
	file := func(suffix string) string { return "/shared/" + name + suffix }
	fmt.Println("begin", name)
	fmt.Fprintln(os.Stderr, "error of", name)
	if err := os.WriteFile(file(".begun"), nil, 0o600); err != nil {
		return "", err
	}
	for !e2etest.Exists(file(".go")) && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	fmt.Println("end", name)
	return name, nil
})

func init() {
	victimWork["recite"] = func(pool *gputrain.Compute, v victim) {
		os.WriteFile(filepath.Join(v.Shared, "old.go"), nil, 0o600)
		pool.Run(recite.Call("old"))
		e2etest.Say("the old one is over")
		for rank, name := range []string{"finishes", "runs"} {
			call := recite.Call(name)
			call.Name, call.Target = name, gputrain.OnRank(rank)
			pool.Start(call)
		}
		select {}
	}
}

// Functions that run when their program is killed, or end meanwhile, have their whole output and run time after Attach.
// The output of an earlier function, which the program received, is not shown again.
func attachFunctionOutput(t *testing.T) {
	v := shared(t, "recite", 2, 1)
	file := func(name string) string { return filepath.Join(v.Shared, name) }
	r := v.start(t)
	r.Await("the old one is over")
	begun := map[string]time.Time{}
	for _, name := range []string{"finishes", "runs"} {
		e2etest.Until(t, "the start of "+name, func() bool { return e2etest.Exists(file(name + ".begun")) })
		begun[name] = time.Now()
	}
	r.Kill()
	least := map[string]time.Duration{"finishes": time.Since(begun["finishes"])}
	e2etest.WriteText(t, file("finishes.go"), "")
	var told e2etest.Shown
	pool := v.attach(t, told.Option())
	least["runs"] = time.Since(begun["runs"])
	e2etest.WriteText(t, file("runs.go"), "")
	for _, job := range pool.Jobs() {
		r, err := job.Wait()
		name, valueErr := recite.Value(r)
		if err != nil || valueErr != nil {
			t.Fatal(err, valueErr)
		}
		if out, err := string(r.Stdout), string(r.Stderr); out != "begin "+name+"\nend "+name+"\n" || err != "error of "+name+"\n" {
			t.Errorf("%s: stdout %q, stderr %q", name, out, err)
		}
		if read, err := io.ReadAll(job.Stdout()); err != nil || string(read) != string(r.Stdout) {
			t.Errorf("%s: its job's output is %q, %v", name, read, err)
		}
		if r.Elapsed < least[name] || r.Elapsed > time.Since(begun[name])+time.Minute {
			t.Errorf("%s ran for %v, and it was at least %v", name, r.Elapsed, least[name])
		}
		if shown := told.Out.String() + told.Err.String(); !strings.Contains(shown, "["+name+"] begin "+name+"\n") || !strings.Contains(shown, "["+name+"] error of ") {
			t.Errorf("shown:\n%s", shown)
		}
		delete(least, name)
	}
	if len(least) > 0 || strings.Contains(told.Out.String(), "old") {
		t.Errorf("%v have no job; shown:\n%s", least, told.Out.String())
	}
}
