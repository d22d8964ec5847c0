//go:build unix

package sim

import (
	"os"
	"testing"

	"github.com/gputrain/gputrain/internal/strangertest"
)

// Another user can see the name of a machine's home, and write it into the environment
// of a process: that one is not ended with the machine. They cannot look into the home.
func TestStrangersProcess(t *testing.T) {
	strangertest.Need(t)
	dir := strangertest.Shared(t)
	home, err := makeHome(dir)
	if err != nil {
		t.Fatal(err)
	}
	if open := strangertest.Opens(t, dir); len(open) > 0 {
		t.Errorf("the stranger opens %v", open)
	}
	pid := strangertest.Start(t, homeEnv+"="+home)
	removeHomes(map[string]bool{home: true})
	if _, err := os.Lstat(home); err == nil {
		t.Error("the home is still there")
	}
	if !strangertest.Lives(t, pid) {
		t.Error("a stranger's process was ended")
	}
}
