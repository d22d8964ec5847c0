package hostile_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/simnode"
	"github.com/gputrain/gputrain/internal/test/bubble"
	"github.com/gputrain/gputrain/internal/test/hostile"
	"github.com/gputrain/gputrain/providers/local"
	"github.com/gputrain/gputrain/providers/sim"
)

const (
	// flood limits what a node sends, in bytes, if the client does not stop reading.
	flood = 256 << 20
	// memory is how much the heap may grow meanwhile, in bytes, including the node's own part.
	memory = 96 << 20
)

// small are limits that every flood exceeds.
var small = gputrain.Limits{ResultBytes: 1 << 20, OutputBytes: 4 << 20, DownloadBytes: 4 << 20, DownloadFiles: 1000}

// repeated returns slices of the same block with n bytes in total.
func repeated(block []byte, n int64) (out [][]byte) {
	for sent := int64(0); sent < n; sent += int64(len(block)) {
		out = append(out, block)
	}
	return out
}

// floods are endless outputs of a node, each with the operation that receives it.
var floods = []struct {
	name string
	liar func() hostile.Liar
	do   func(c *gputrain.Compute, taken string) error
	// refused is true if the operation must fail with ErrLimit.
	refused bool
}{
	{"a file", func() hostile.Liar {
		return hostile.In(hostile.Download, hostile.Lie{Stdout: hostile.Endless("file", "file", 1<<40, flood)})
	}, downloads, true},
	{"a file of a folder", func() hostile.Liar {
		return hostile.In(hostile.Download, hostile.Lie{Stdout: hostile.Endless("folder", "./file", 1<<40, flood)})
	}, downloads, true},
	{"files of a folder", func() hostile.Liar {
		return hostile.In(hostile.Download, hostile.Lie{Stdout: hostile.Entries("folder", 100_000, func(i int) hostile.Entry { return hostile.File(fmt.Sprint("./f", i), "") })})
	}, downloads, true},
	{"a first line", func() hostile.Liar {
		return hostile.In(hostile.Download, hostile.Lie{Stdout: hostile.Flood([]byte("folder"), flood)})
	}, downloads, false},
	{"names of outputs", func() hostile.Liar {
		return hostile.In(hostile.Find, hostile.Lie{Stdout: hostile.ListedWithoutEnd(4_000_000, func(i int) string { return fmt.Sprintf("%080d", i) })})
	}, outputs, true},
	{"an output", func() hostile.Liar {
		return hostile.In(hostile.Fetch, hostile.Lie{Stdout: hostile.Endless("", "./out/file", 1<<40, flood)})
	}, outputs, true},
	{"sums", func() hostile.Liar {
		return hostile.In(hostile.Fetch, hostile.Lie{Stdout: hostile.Then(
			hostile.Say(hostile.Tar(hostile.File("./out/file", "good\n"))), hostile.Flood([]byte(strings.Repeat("0", 64)+"  x\n"), flood))})
	}, outputs, false},
	{"what a task prints", func() hostile.Liar {
		return frames(func() func(hostile.Frame) [][]byte {
			return hostile.One("D", func(f hostile.Frame) [][]byte {
				w := f.Words()
				head := fmt.Sprintf("G %s\nO %s o 0 %d\n", w[1], w[1], int64(flood))
				return append([][]byte{[]byte(head)}, append(repeated(make([]byte, 1<<20), flood), f.Bytes())...)
			})
		})
	}, prints, false},
	{"a result", func() hostile.Liar {
		return results(func(m hostile.Message) [][]byte {
			data := hostile.Message{Type: hostile.MessageData, ID: m.ID, Payload: make([]byte, 256<<10)}.Bytes()
			return append([][]byte{hostile.Result(m.ID, flood, []byte("x")).Bytes()}, repeated(data, flood)...)
		})
	}, calls, true},
	{"results of calls that were never made", func() hostile.Liar {
		return results(func(m hostile.Message) (out [][]byte) {
			payload := make([]byte, 256<<10)
			for id := range uint64(flood / len(payload)) {
				out = append(out, hostile.Result(id, 1<<40, nil).Bytes(), hostile.Message{Type: hostile.MessageData, ID: id, Payload: payload}.Bytes())
				if id >= 32 { // more would only use the attacker's memory
					break
				}
			}
			data := hostile.Message{Type: hostile.MessageData, ID: 7, Payload: payload}.Bytes()
			return append(append(out, repeated(data, flood)...), m.Bytes())
		})
	}, calls, false},
	{"items of a stream", func() hostile.Liar {
		return messages(func() func(hostile.Message) [][]byte {
			return hostile.OfType(hostile.MessageItem, func(m hostile.Message) [][]byte {
				return repeated(bytes.Repeat(m.Bytes(), 1<<15), flood)
			})
		})
	}, streams, false},
	{"complaints", func() hostile.Liar {
		return always(hostile.Lie{Stderr: hostile.Flood([]byte("no\n"), flood/4), Exit: func(s *hostile.Session, _ string, _ []byte) { s.Status(1) }},
			hostile.Upload, hostile.Download, hostile.Fetch, hostile.Other)
	}, func(c *gputrain.Compute, taken string) error {
		return errors.Join(downloads(c, taken), outputs(c, taken))
	}, false},
}

func downloads(c *gputrain.Compute, taken string) error { return c.Download("file", taken) }

func outputs(c *gputrain.Compute, _ string) error {
	task := gputrain.Script("mkdir -p out; echo good >out/file")
	task.Outputs, task.Target = []string{"out/*"}, gputrain.OnRank(0)
	_, err := c.Run(task)
	return err
}

func prints(c *gputrain.Compute, _ string) error {
	_, err := c.Run(gputrain.Task{Script: "echo said", Target: gputrain.OnRank(0)})
	return err
}

func calls(c *gputrain.Compute, _ string) error {
	task := double.Call(21)
	task.Target = gputrain.OnRank(0)
	_, err := c.Run(task)
	return err
}

func streams(c *gputrain.Compute, _ string) error {
	for _, err := range count.Run(c, 100) {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestHostileFloods uses a node that sends without end. The client's memory and disk use stay within limits, and
// operations with a limit fail with ErrLimit.
func TestHostileFloods(t *testing.T) {
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: it takes a minute")
	}
	for _, f := range floods {
		t.Run(f.name, func(t *testing.T) {
			home := hostile.NewHome(t)
			c := newCloud(t, local.Config{Dir: t.TempDir()}, home)
			pool, err := gputrain.Open(t.Context(), c, gputrain.Spec{Nodes: 1, MaxReplacements: -1}, gputrain.WithLimits(small),
				gputrain.WithStateDir(t.TempDir()), gputrain.WithResultsDir(filepath.Join(home.Taken, "results")))
			if err != nil {
				t.Fatal(err)
			}
			if err := calls(pool, ""); err != nil {
				t.Fatal(err)
			}
			c.lie(0, f.liar())
			c.at(0).HangUp()
			peak := watch(home)
			err = returns(t, func() error {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				return f.do(pool.WithContext(ctx), home.Taken)
			})
			grown, disk := peak()
			t.Logf("%d MiB were sent, the heap grew by %d MiB, %d bytes were on disk: %.300v", c.at(0).Said()>>20, grown>>20, disk, err)
			if grown > memory && !bubble.Race {
				t.Errorf("the heap grew by %d MiB", grown>>20)
			}
			if f.refused && !errors.Is(err, gputrain.ErrLimit) {
				t.Errorf("%.300v is no ErrLimit", err)
			}
			if disk > small.DownloadBytes+small.OutputBytes {
				t.Errorf("%d bytes were on disk", disk)
			}
			wantShort(t, err)
			c.lie(0, hostile.Honest{})
			wantShort(t, returns(t, pool.Close))
			for _, wrong := range home.Changes() {
				t.Error(wrong)
			}
		})
	}
}

// watch returns a func that returns the largest growth of the heap and the largest size on disk, in bytes.
func watch(home *hostile.Home) func() (grown, disk int64) {
	percent := debug.SetGCPercent(10) // so that garbage is not counted for long
	runtime.GC()
	before := heap()
	most, full := before, home.Size()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			case <-tick.C:
				most = max(most, heap())
				if n%10 == 0 {
					full = max(full, home.Size())
				}
			}
		}
	})
	return func() (int64, int64) {
		close(stop)
		wg.Wait()
		debug.SetGCPercent(percent)
		return most - before, max(full, home.Size())
	}
}

func heap() int64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// TestHostileNeighbour makes one of two nodes flood or become silent, in virtual time: the honest node does all its
// tasks meanwhile, and none of the other node's tasks has ended.
func TestHostileNeighbour(t *testing.T) {
	const tasks = 200
	lies := map[string]hostile.Liar{
		"silent": always(hostile.Lie{Stdout: hostile.Silence}),
		"floods": frames(func() func(hostile.Frame) [][]byte {
			return func(f hostile.Frame) [][]byte {
				switch f.Words()[0] {
				case "G":
					return repeated(bytes.Repeat([]byte("B\n"), 1<<15), 4<<20)
				case "D":
					return nil
				}
				return [][]byte{f.Bytes()}
			}
		}),
		"no end": ended(func(hostile.Frame) [][]byte { return nil }),
	}
	for name, l := range lies {
		t.Run(name, func(t *testing.T) {
			state, results := t.TempDir(), t.TempDir()
			inBubble(t, func(t *testing.T, own *sim.Cloud) {
				c := &cloud{Provider: sim.Config{Cloud: own}, nodes: map[string]*made{}}
				defer c.close()
				pool, err := gputrain.Open(t.Context(), c, gputrain.Spec{Nodes: 2, Concurrency: 4, MaxReplacements: -1},
					gputrain.WithStateDir(state), gputrain.WithResultsDir(results))
				if err != nil {
					t.Fatal(err)
				}
				c.lie(0, l)
				c.at(0).HangUp()
				bounded, cancel := context.WithCancel(t.Context())
				var waiting []*gputrain.Job
				for range 4 {
					waiting = append(waiting, pool.WithContext(bounded).Start(gputrain.Task{Script: "bad", Target: gputrain.OnRank(0)}))
				}
				var good []gputrain.Task
				for range tasks {
					good = append(good, gputrain.Task{Script: "good", Target: gputrain.OnRank(1)})
				}
				done, _ := pool.Gather(good...) // each exits with 3
				for _, r := range done {
					if len(r.Stdout) != 10_000 || r.ExitCode != 3 || r.Attempts != 1 {
						t.Errorf("task %d has printed %d bytes in %d attempts", r.Index, len(r.Stdout), r.Attempts)
					}
				}
				for _, job := range waiting {
					select {
					case <-job.Done():
						t.Error("the hostile node's task was over first")
					default:
					}
				}
				cancel()
				for _, job := range waiting {
					job.Wait()
				}
				pool.Close() // must return
			})
		})
	}
}

// inBubble runs a test with a simulated cloud in virtual time.
func inBubble(t *testing.T, f func(t *testing.T, own *sim.Cloud)) {
	inBubbleWith(t, sim.Options{Exec: func(ctx context.Context, c sim.Command) int {
		return speak(ctx, simnode.Command{Stdout: c.Stdout, Stderr: c.Stderr})
	}}, f)
}

func inBubbleWith(t *testing.T, o sim.Options, f func(t *testing.T, own *sim.Cloud)) {
	bubble.Test(t, func(t *testing.T) {
		own := sim.New(o)
		defer own.Close()
		f(t, own)
	})
}
