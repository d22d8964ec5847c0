package slurm

import (
	"log"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

func TestMain(m *testing.M) {
	gputrain.Init() // this program is also what runs functions on nodes
	cloud.Second = 5 * time.Millisecond
	home, err := os.MkdirTemp("", "slurm-test-")
	if err != nil {
		log.Fatal(err)
	}
	os.Setenv("HOME", home) // without the user's own keys
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(home)
		os.Exit(code)
	}))
}
