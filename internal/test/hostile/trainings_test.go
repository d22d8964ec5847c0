package hostile_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/bubble"
	"github.com/gputrain/gputrain/internal/test/hostile"
	"github.com/gputrain/gputrain/observe"
	"github.com/gputrain/gputrain/providers/sim"
)

// A fabulist is a simulated node that makes up its checkpoints, and what its sampler says. In other sessions it lies as another Liar
// does. A tame one makes up only checkpoints that could be true, since a simulated node has no files.
type fabulist struct {
	hostile.Liar
	tame  bool
	files bool // its checkpoints have files, which do not come
	mu    sync.Mutex
	r     *rand.Rand
	home  *hostile.Home
	step  int // of the last plausible checkpoint
}

// stepName finds the checkpoint that a command asks for.
var stepName = regexp.MustCompile(`step-[0-9]+`)

func (f *fabulist) Session(kind hostile.Kind, command string) *hostile.Lie {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.tame && f.r.IntN(8) == 0 {
		return f.Liar.Session(kind, command)
	}
	said := ""
	switch name := stepName.FindString(command); {
	case strings.HasSuffix(command, "gputrain-usage watch") && f.tame:
		return nil
	case strings.HasSuffix(command, "gputrain-usage watch"):
		return &hostile.Lie{Stdout: f.samples(), Stderr: f.samples()}
	case strings.Contains(command, "//@"): // a look
		if said = "//@1000000 4\n"; f.tame || f.r.IntN(3) > 0 {
			f.step += f.r.IntN(3)
			said += fmt.Sprintf("//w 4 1700000000 - step-%d\n", f.step)
			break
		}
		if f.r.IntN(2) == 0 {
			said += fmt.Sprintf("//w 4 %d - step-%s\n", f.r.IntN(2_000_000_000), pickWord(f.r, "9223372036854775807", "1", "500", "000"))
			break
		}
		said = fmt.Sprintf("//@%s %s\n", f.word(), f.word())
		for range f.r.IntN(6) {
			said += fmt.Sprintf("//%s %s %s %s %s\n", pickWord(f.r, "w", "d", "f", "x"), f.word(), f.word(), f.word(), f.checkpoint())
		}
	case strings.Contains(command, `find "./$n" -exec stat`): // what it consists of
		if name == "" {
			name = f.checkpoint()
		}
		said = fmt.Sprintf("//41ed 0 1 ./%s\n", name)
		if (!f.tame || f.files) && f.r.IntN(2) == 0 { // it has no files otherwise: SFTP, by which they would come, only lies here
			said += fmt.Sprintf("//81a4 4 1 ./%s/m\n", name)
		}
		if !f.tame && f.r.IntN(3) == 0 {
			said += fmt.Sprintf("//%s %s %s ./%s/%s\n", pickWord(f.r, "81a4", "a1ff", "41ed", "61b0", "x"), f.word(), f.word(), name, f.checkpoint())
		}
	case kind == hostile.SFTP && !f.tame:
		return f.Liar.Session(kind, command)
	case kind == hostile.Other && strings.Contains(command, "d="), strings.Contains(command, "p="): // another script
	default:
		return nil
	}
	return &hostile.Lie{Stdout: hostile.Say([]byte(said)), Exit: succeeded}
}

func succeeded(s *hostile.Session, _ string, _ []byte) { s.Status(0) }

// word returns a number, or what is none.
func (f *fabulist) word() string {
	return pickWord(f.r, "0", "1", "4", "1000000", "1700000000", "-1", "9223372036854775807", "-", "x", "\x1b[2J", strings.Repeat("9", 400))
}

// checkpoint returns a name for one.
func (f *fabulist) checkpoint() string {
	if f.r.IntN(3) > 0 {
		return fmt.Sprintf("step-%d", f.r.IntN(1000))
	}
	return pickWord(f.r, "step-9223372036854775807", "step--1", "step-", "m", ".hidden", "..", "../../x", f.home.Decoy(f.r.IntN(5)), "a\nb", "\x1b[2J", strings.Repeat("a", 300))
}

// samples is a node's sampler that says whatever may be a sample, a fault, or neither, without end.
func (f *fabulist) samples() hostile.Tamper {
	own := rand.New(rand.NewPCG(f.r.Uint64(), 1))
	return func(s *hostile.Session, dst io.Writer, _ io.Reader) {
		io.WriteString(dst, "tool nvidia-smi index,pci.bus_id,utilization.gpu,ecc.errors.uncorrected.volatile.total\nkernel dmesg [0.5] x\n")
		for {
			text := pickWord(own, fmt.Sprintf("%d, 00000000:%02x:00.0, %d, %d\n", own.IntN(20)-2, own.IntN(300), own.IntN(300)-100, own.IntN(1<<30)),
				fmt.Sprintf("[%d.0] NVRM: Xid (PCI:0000:%02x:00): %d, pid=1, x\n", own.IntN(1<<30), own.IntN(300), own.IntN(200)),
				"\x1b[2J\n", "\n", strings.Repeat("x", own.IntN(100_000)), "0, , nan, -1\n", "tool \nhost cpu=999\n")
			if _, err := io.WriteString(dst, text); err != nil {
				return
			}
			select {
			case <-s.Done():
				return
			case <-time.After(time.Duration(1+own.IntN(1000)) * time.Millisecond):
			}
		}
	}
}

func pickWord(r *rand.Rand, from ...string) string { return from[r.IntN(len(from))] }

// trains is what a process of a training does: steps of a second each, beside much other output.
func trains(ctx context.Context, c sim.Command) int {
	for i := range 40 {
		fmt.Fprintf(c.Stdout, "gputrain: step=%d/40 loss=2.5\n%s\n", i, strings.Repeat("said ", 1000))
		select {
		case <-ctx.Done():
			return -15
		case <-time.After(time.Second):
		}
	}
	return 0
}

// recorderBytes bounds what the recorder keeps in memory, and in its file.
const recorderBytes = 1 << 20

// tryTraining makes one of a pool's nodes lie about a training, its checkpoints, its samples and its recorded output, in virtual time. A
// node may be taken back meanwhile.
func (w *world) tryTraining(r *rand.Rand) (err error) {
	if w.trained == nil {
		w.trained = hostile.NewHome(w.t)
	}
	home, state := w.trained, w.t.TempDir()
	wrong := func(format string, args ...any) { err = errors.Join(err, fmt.Errorf(format, args...)) }
	recorded := filepath.Join(state, "recorded", "run.jsonl")
	bubble.Test(w.t, func(t *testing.T) {
		own := sim.New(sim.Options{Exec: trains, PreemptionNotice: time.Minute})
		defer own.Close()
		liar := &fabulist{Liar: hostile.Random(r, hostile.Aims{Flood: 1 << 20, Outside: home.Out(r.IntN(9))}), r: rand.New(rand.NewPCG(r.Uint64(), 2)), home: home}
		// What a simulated node has no files for is made up by the other nodes too, but with no other lies.
		c := &cloud{Provider: sim.Config{Cloud: own}, home: home, nodes: map[string]*made{}, first: map[int]hostile.Liar{}}
		for rank := range 2 {
			c.first[rank] = &fabulist{Liar: hostile.Honest{}, tame: true, r: rand.New(rand.NewPCG(r.Uint64(), 3)), home: home}
		}
		if fromStart := r.IntN(3) == 0; fromStart {
			c.first[0] = liar
		}
		defer c.close()
		recorder, e := observe.New(observe.Config{File: recorded, MemoryBytes: recorderBytes, FileBytes: recorderBytes, Usage: 10 * time.Second})
		if e != nil {
			err = e
			return
		}
		defer recorder.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 12*time.Hour)
		defer cancel()
		pool, e := gputrain.Open(ctx, c, gputrain.Spec{Nodes: 2, MaxReplacements: r.IntN(3) - 1, Accelerator: accelerators.A100()},
			gputrain.WithStateDir(state), gputrain.WithResultsDir(filepath.Join(home.Taken, "results")), recorder.Option())
		if e != nil {
			if ctx.Err() != nil {
				wrong("Open hangs: %w", e)
			}
			return
		}
		c.lie(0, liar)
		if r.IntN(2) == 0 {
			c.at(0).HangUp()
		}
		if r.IntN(3) == 0 {
			after, rank := time.Duration(r.IntN(60))*time.Second, r.IntN(2)
			time.AfterFunc(after, func() {
				for _, n := range pool.Nodes() {
					if n.Rank == rank {
						own.Preempt(n.ID, time.Minute)
					}
				}
			})
		}
		training := gputrain.Training{
			Task: gputrain.Task{Name: "t", Args: []string{"train"}, Timeout: time.Hour, Checkpoints: gputrain.Checkpoints{
				To: filepath.Join(home.Taken, "checkpoints"), Every: time.Duration(1+r.IntN(20)) * time.Second, Keep: 1 + r.IntN(3),
			}},
			Nodes: 2, ProcessesPerNode: 1, Restarts: r.IntN(4), StartTimeout: 10 * time.Minute, StallTimeout: 10 * time.Minute,
			Launcher: []gputrain.Launcher{gputrain.Processes, gputrain.Torchrun, gputrain.MPI}[r.IntN(3)],
		}
		_, e = pool.WithContext(ctx).Train(training)
		if ctx.Err() != nil {
			wrong("Train hangs: %w", e)
		}
		if e != nil && !isNamed(e) {
			wrong("the training's error answers nothing: %T %w", e, e)
		}
		pool.Close() // must return
		if e := recorder.Close(); e != nil {
			wrong("the recorder: %w", e)
		}
		size := 0
		for _, task := range recorder.Run().Tasks {
			for _, l := range task.Lines {
				size += len(l.Text)
			}
		}
		if size > 2*recorderBytes {
			wrong("the recorder keeps %d bytes of lines", size)
		}
	})
	if info, e := os.Stat(recorded); e != nil {
		wrong("the recorder's file: %w", e)
	} else if info.Size() > 2*recorderBytes {
		wrong("the recorder's file has %d bytes", info.Size())
	} else if _, e := observe.Read(recorded); e != nil {
		wrong("what was recorded cannot be read: %w", e)
	}
	if found := home.Changes(); found != nil {
		wrong("%s", strings.Join(found, "; "))
		home.Repair()
	}
	if size := home.Size(); size > 16<<20 {
		wrong("%d bytes have arrived", size)
	}
	names, _ := filepath.Glob(filepath.Join(home.Taken, "checkpoints", "t", "step-*"))
	w.copied += len(names)
	home.Empty()
	return err
}

// TestHostileTrainings has some trainings under lying nodes in any case, and made-up checkpoints do arrive: otherwise it would prove
// nothing.
func TestHostileTrainings(t *testing.T) {
	w := &world{t: t}
	for seed := range uint64(8) {
		if err := w.tryTraining(rand.New(rand.NewPCG(seed, 1))); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
	if w.copied == 0 {
		t.Error("no checkpoint was copied")
	}
}

// isNamed reports whether an error says to errors.Is or errors.As what has happened.
func isNamed(err error) bool {
	var training *gputrain.TrainError
	var provider *gputrain.Error
	return errors.As(err, &training) || errors.As(err, &provider) || errors.Is(err, gputrain.ErrNodeLost) || errors.Is(err, gputrain.ErrClosed)
}
