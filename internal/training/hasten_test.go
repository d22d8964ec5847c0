//go:build unix

package training

import (
	"os"
	"os/exec"
	"testing"
)

// TestKillLauncher starts a launcher and a process of it: the launcher lives for as long as that does.
func TestKillLauncher(t *testing.T) {
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("the system has no /proc")
	}
	mark := "GPUTRAIN_GANG=" + t.TempDir() + "."
	start := func(env ...string) (end func(), ended <-chan struct{}) {
		c := exec.Command("sleep", "60")
		c.Env = append([]string{mark}, env...)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.Wait()
		}()
		end = func() {
			c.Process.Kill()
			<-done
		}
		t.Cleanup(end)
		return end, done
	}
	look := func() {
		t.Helper()
		if out, err := exec.Command("sh", "-c", "mark="+word(mark)+"\n"+killLauncher).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	_, launched := start("PET_NNODES=2")
	kill, _ := start("RANK=1", "LOCAL_RANK=0")
	look()
	select {
	case <-launched:
		t.Fatal("a launcher was killed whose process lives")
	default:
	}
	kill()
	look()
	<-launched
	look() // there is none
}
