package cloudtest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/guardian"
	"github.com/gputrain/gputrain/providers/driver"
)

// doomedVariable makes a test's program one that opens a pool, and waits to be killed.
const doomedVariable = "GPUTRAIN_TEST_DOOMED"

// A doomed program is told on its stdin what to open.
type doomed struct {
	Provider guardian.Config
	Spec     gputrain.Spec
	StateDir string
}

// A doomed program prints one of these.
const guarded, unguarded = "guarded", "unguarded: "

// beDoomed is the life of a doomed program.
func beDoomed() {
	var d doomed
	if err := cbor.NewDecoder(os.Stdin).Decode(&d); err != nil {
		panic(err)
	}
	p, err := d.Provider.Decode()
	if err != nil {
		panic(err)
	}
	_, err = gputrain.Open(context.Background(), p, d.Spec, gputrain.WithStateDir(d.StateDir), gputrain.WithEvents(func(ev gputrain.Event) {
		switch {
		case ev.State != "guardian":
		case ev.Err == nil:
			fmt.Println(guarded)
		default:
			fmt.Println(unguarded + ev.Err.Error())
		}
	}))
	fmt.Println("open:", err)
	select {}
}

// Guardian kills programs that open a pool, at random moments after they have a guardian, and the first one after it has made
// a machine: if it were killed during a launch, its guardian would wait for the launch's late effects. Nothing may be left of
// them, and nothing but the guardian ends their machines. A short run kills one.
func (c Cloud[F, C]) Guardian(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the fakes' machines are those of a Unix")
	}
	t.Parallel()
	f, spec := c.Start(t), c.Spec
	left := func() []driver.Resource { return c.Account(f) }
	config, err := guardian.Encode(c.Config(f))
	if err != nil {
		t.Fatal(err)
	}
	spec.Lease = 5 * time.Second // the least
	before, others := len(left()), c.kinds(f)["machine"]
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("kill ", seed), func(t *testing.T) {
			if seed > 0 && testing.Short() {
				t.Skip("scripts/test -deep runs it: a short run kills one program")
			}
			state := t.TempDir()
			kill(t, doomed{config, spec, state}, func() {
				for until := time.Now().Add(5 * time.Minute); seed == 0 && c.kinds(f)["machine"] == others; time.Sleep(10 * time.Millisecond) {
					if time.Now().After(until) {
						t.Fatal("the program makes no machine")
					}
				}
				time.Sleep(time.Duration(rand.New(rand.NewPCG(seed, 0)).IntN(3000)) * time.Millisecond)
			})
			for until := time.Now().Add(5 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
				pools, err := gputrain.StateDir(state).Pools()
				if now := left(); err == nil && len(pools) == 0 && len(now) == before {
					return
				} else if time.Now().After(until) {
					t.Fatalf("left: %+v; of the pools %+v, %v", now, pools, err)
				}
			}
		})
	}
}

// kill starts a doomed program, waits until it has a guardian and then until wait returns, and kills it.
func kill(t *testing.T, d doomed, wait func()) {
	t.Helper()
	orders, err := cbor.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), doomedVariable+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	if _, err := in.Write(orders); err != nil {
		t.Fatal(err)
	}
	limit := time.AfterFunc(5*time.Minute, func() { cmd.Process.Kill() })
	defer limit.Stop()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if why, ok := strings.CutPrefix(lines.Text(), unguarded); ok {
			t.Fatalf("the pool has no guardian: %s", why)
		}
		if lines.Text() == guarded {
			go io.Copy(io.Discard, out)
			wait()
			return
		}
	}
	t.Fatal("the program has ended without a guardian")
}
