package guardian

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(Env) != "" {
		Main(nil)
	}
	goleak.VerifyTestMain(m)
}

// started starts a guardian of a pool that is gone: it ends as soon as its pipe does.
func started(t *testing.T) *Guardian {
	t.Helper()
	g, err := Start(Job{StateDir: t.TempDir(), Pool: "p-1", Generation: 1})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestStart(t *testing.T) {
	g := started(t)
	g.Closed()
	if g.process.ProcessState == nil || !g.process.ProcessState.Success() {
		t.Errorf("it ends with %v", g.process.ProcessState)
	}
	_, err := Start(Job{StateDir: t.TempDir(), Pool: "p-1", Providers: []Config{{Type: "no.Config"}}})
	if err == nil || !strings.Contains(err.Error(), "no type no.Config") {
		t.Errorf("with a provider that it does not know: %v", err)
	}
	_, err = Start(Job{StateDir: "/dev/null/state", Pool: "p-1"})
	if err == nil {
		t.Error("without a state directory it is ready")
	}
}

// A guardian that was killed holds up nothing.
func TestClosedAfterItsEnd(t *testing.T) {
	g := started(t)
	if err := g.process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	g.Closed()
}

// The guardian of a pool that was not ended whole stays as long as this program does, whatever the collector finds.
func TestKept(t *testing.T) {
	pid := keep(t)
	for range 3 {
		runtime.GC()
		time.Sleep(50 * time.Millisecond)
	}
	process, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		_, err := process.Wait()
		ended <- err
	}()
	select {
	case err := <-ended:
		t.Fatalf("it has ended, %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	kept.Lock()
	last := kept.all[len(kept.all)-1]
	kept.all = nil
	kept.Unlock()
	last.pipe.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// keep starts a guardian, and keeps nothing of it but what the package does.
func keep(t *testing.T) (pid int) {
	g := started(t)
	g.Kept()
	return g.process.Process.Pid
}

// None is like one that has nothing to do.
func TestNone(t *testing.T) {
	var g *Guardian
	g.Closed()
	g.Released()
	g.Kept()
	started(t).Released()
}
