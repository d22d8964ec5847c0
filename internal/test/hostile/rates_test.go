package hostile_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/hostile"
	"github.com/gputrain/gputrain/providers/sim"
)

// rates has for each kind of event how many one node can cause, at once and in a minute, beside a task and a training of one's own,
// and what paces it.
var rates = map[gputrain.EventKind]struct {
	atOnce, minute int
	by             string
}{
	gputrain.EventPool:       {10, 0, "the pool's own life"},
	gputrain.EventNode:       {40, 8, "the pause between two connections, and this program's renewals of the lease"},
	gputrain.EventPhase:      {40, 0, "the phases of the image, for each replacement"},
	gputrain.EventTask:       {300, 0, "the user's tasks and their retries"},
	gputrain.EventRetry:      {100, 0, "Task.Retries"},
	gputrain.EventCost:       {20, 0, "what is rented"},
	gputrain.EventPreemption: {3, 0, "once for a machine"},
	gputrain.EventTransfer:   {10, 120, "this program's clock, in each transfer, and Checkpoints.Every"},
	gputrain.EventTraining:   {100, 6, "Training.Restarts, what a preflight looks at, and Checkpoints.Every"},
	gputrain.EventStep:       {10, 2 * 60, "a second, for each task and training"},
	gputrain.EventUsage:      {2 * 100, 12, "leastPause between samples, and faults by device and hour"},
	gputrain.EventOmitted:    {0, 0, "the function of WithEvents"},
	gputrain.EventOffer:      {20, 0, "the cloud"},
	gputrain.EventProgress:   {4 + 4*60, 0, "progressPause, in a phase that runs for a minute"},
	gputrain.EventWait:       {20, 0, "the cloud"},
	gputrain.EventTally:      {10, 4 * 60, "a quarter of a second"},
	gputrain.EventTrouble:    {10, 6, "this program's own work, and connections of its user"},
}

// A shouter is a node that says at all times whatever may become an event. Its checkpoints are made up.
type shouter struct {
	hostile.Honest
	checkpoints *fabulist
}

func (n shouter) Session(kind hostile.Kind, command string) *hostile.Lie {
	shout := func(say func(i int) string) hostile.Tamper {
		return func(s *hostile.Session, dst io.Writer, _ io.Reader) {
			for i := 0; ; i++ {
				if _, err := io.WriteString(dst, say(i)); err != nil {
					return
				}
				select {
				case <-s.Done():
					return
				case <-time.After(20 * time.Millisecond):
				}
			}
		}
	}
	if !strings.HasSuffix(command, "gputrain-usage watch") {
		return n.checkpoints.Session(kind, command)
	}
	return &hostile.Lie{
		Stdout: shout(func(i int) string {
			if i == 0 {
				return "tool nvidia-smi index,pci.bus_id,utilization.gpu,ecc.errors.uncorrected.volatile.total\nkernel dmesg [0.5] x\n"
			}
			return fmt.Sprintf("0, 00000000:01:00.0, 99, %d\n1, %08X:01:00.0, 99, 0\n", i, i)
		}),
		Stderr: shout(func(i int) string {
			return fmt.Sprintf("[%d.000000] NVRM: Xid (PCI:0000:%02x:00): %d, pid=1, x\n", i+1, i%200+1, i%100)
		}),
	}
}

// Banner makes each login slow enough that the node is told to be away.
func (shouter) Banner() string {
	time.Sleep(1200 * time.Millisecond)
	return ""
}

// shouts is what tasks, phases and the processes of a training print there.
func shouts(ctx context.Context, c sim.Command) int {
	switch text := strings.Join(c.Args, " "); {
	case strings.Contains(text, "fail"):
		return 1
	case !strings.Contains(text, "shout") && !strings.Contains(text, "GPUTRAIN_SETUP"):
		return 0
	}
	for i := range 50 * 60 {
		fmt.Fprintf(io.MultiWriter(c.Stdout, c.Stderr), "(%d/%d) Installing x\ngputrain: step=%d/%d x%d=1\n", i+1, i+1, i, i, i)
		select {
		case <-ctx.Done():
			return -15
		case <-time.After(20 * time.Millisecond):
		}
	}
	return 0
}

// TestHostileRates has a node that says all the time whatever may become an event, and drops its connection every two seconds. How many
// events there are is not its choice.
func TestHostileRates(t *testing.T) {
	const minutes = 12
	state, results := t.TempDir(), t.TempDir()
	var mu sync.Mutex
	seen := map[gputrain.EventKind]int{}
	inBubbleWith(t, sim.Options{Exec: shouts, PreemptionNotice: 24 * time.Hour}, func(t *testing.T, own *sim.Cloud) {
		c := &cloud{Provider: sim.Config{Cloud: own}, nodes: map[string]*made{}, first: map[int]hostile.Liar{0: shouter{checkpoints: &fabulist{tame: true, files: true, r: rand.New(rand.NewPCG(1, 1))}}}}
		defer c.close()
		kept := func(every time.Duration) gputrain.Checkpoints {
			return gputrain.Checkpoints{To: filepath.Join(results, "kept"), Every: every}
		}
		began := time.Now()
		pool, err := gputrain.Open(t.Context(), c, gputrain.Spec{
			Nodes: 1, Concurrency: 2, MaxReplacements: -1, Allocation: gputrain.SpotIfAvailable, Accelerator: accelerators.A100(), Image: gputrain.Image{Setup: []string{"shout"}},
		}, gputrain.WithStateDir(state), gputrain.WithResultsDir(results), gputrain.WithUsage(time.Minute), gputrain.WithEvents(func(ev gputrain.Event) {
			mu.Lock()
			defer mu.Unlock()
			seen[ev.Kind]++
		}))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			for ctx.Err() == nil {
				time.Sleep(2 * time.Second)
				c.at(0).HangUp()
			}
		})
		running.Go(func() { // the end of the machine is announced again and again, and nothing starts there any more
			time.Sleep((minutes - 2) * time.Minute)
			for range 8 {
				own.Preempt(pool.Nodes()[0].ID, 24*time.Hour)
				time.Sleep(15 * time.Second)
			}
		})
		running.Go(func() {
			pool.WithContext(ctx).Run(gputrain.Task{Name: "task", Args: []string{"shout"}, Checkpoints: kept(time.Second)})
			for ctx.Err() == nil {
				pool.WithContext(ctx).Train(gputrain.Training{Task: gputrain.Task{Name: "training", Args: []string{"shout"}, Checkpoints: kept(time.Second)}, Nodes: 1, ProcessesPerNode: 1, Restarts: 3})
				time.Sleep(time.Second)
			}
		})
		running.Go(func() {
			pool.WithContext(ctx).Gather(gputrain.Task{Args: []string{"fail"}, Retries: 5}, gputrain.Task{Args: []string{"fail"}, Retries: 5})
		})
		time.Sleep(time.Until(began.Add(minutes * time.Minute)))
		cancel()
		running.Wait()
		pool.Close()
		passed := int(time.Since(began).Minutes()) + 1
		mu.Lock()
		defer mu.Unlock()
		for kind := gputrain.EventKind(0); !strings.Contains(kind.String(), "("); kind++ {
			r, ok := rates[kind]
			if !ok {
				t.Errorf("nothing bounds how many events of kind %v a node causes: say what does", kind)
			}
			if most := r.atOnce + passed*r.minute; seen[kind] > most {
				t.Errorf("%d events of kind %v in %d minutes, and %s allows %d", seen[kind], kind, passed, r.by, most)
			}
		}
		for _, kind := range []gputrain.EventKind{gputrain.EventPreemption, gputrain.EventTransfer} {
			if seen[kind] == 0 {
				t.Errorf("no event of kind %v: it was not tried", kind)
			}
		}
		for _, kind := range []gputrain.EventKind{gputrain.EventNode, gputrain.EventStep, gputrain.EventUsage, gputrain.EventProgress, gputrain.EventRetry, gputrain.EventTraining} {
			if seen[kind] < 5 {
				t.Errorf("%d events of kind %v: it was not tried", seen[kind], kind)
			}
		}
		t.Logf("%v in %d minutes", seen, passed)
	})
}
