package hostile_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	xssh "golang.org/x/crypto/ssh"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/internal/test/hostile"
	"github.com/gputrain/gputrain/internal/test/sidebyside"
	"github.com/gputrain/gputrain/providers/local"
)

var count = gputrain.GeneratorFunc("hostile/count", func(_ context.Context, n int, yield func(int) bool) error {
	for i := range n {
		if !yield(i) {
			break
		}
	}
	return nil
})

// always lies in the same way in every session of some kinds, or of all kinds if none is given.
func always(lie hostile.Lie, kinds ...hostile.Kind) hostile.Liar {
	return hostile.InSessions{
		Of: func(k hostile.Kind) bool {
			for _, kind := range kinds {
				if k == kind {
					return true
				}
			}
			return len(kinds) == 0
		},
		Lie: func() *hostile.Lie { return &lie },
	}
}

// frames rewrites the frames of every control session.
func frames(rewrite func() func(hostile.Frame) [][]byte) hostile.Liar {
	return hostile.InSessions{
		Of:  func(k hostile.Kind) bool { return k == hostile.Control },
		Lie: func() *hostile.Lie { return &hostile.Lie{Stdout: hostile.Frames(rewrite())} },
	}
}

// ended rewrites the frames that report the ends of tasks.
func ended(rewrite func(hostile.Frame) [][]byte) hostile.Liar {
	return frames(func() func(hostile.Frame) [][]byte { return hostile.One("D", rewrite) })
}

// messages rewrites the messages of every worker.
func messages(rewrite func() func(hostile.Message) [][]byte) hostile.Liar {
	return hostile.InSessions{
		Of:  func(k hostile.Kind) bool { return k == hostile.Worker },
		Lie: func() *hostile.Lie { return &hostile.Lie{Stdout: hostile.Messages(rewrite())} },
	}
}

// results rewrites the results of calls.
func results(rewrite func(hostile.Message) [][]byte) hostile.Liar {
	return messages(func() func(hostile.Message) [][]byte { return hostile.OfType(hostile.MessageResult, rewrite) })
}

// A bystander lies outside sessions.
type bystander struct {
	hostile.Honest
	connect func(*xssh.ServerConn)
	banner  string
}

func (b bystander) Connect(c *xssh.ServerConn) {
	if b.connect != nil {
		b.connect(c)
	}
}
func (b bystander) Banner() string { return b.banner }

// attacks are lies in sessions that do not transfer files, and lies in all sessions.
var attacks = []struct {
	name string
	liar hostile.Liar
}{
	{"the truth", hostile.Honest{}},

	// Lies of the supervisor.
	{"facts that no machine has", frames(func() func(hostile.Frame) [][]byte {
		return hostile.One("F", func(f hostile.Frame) [][]byte {
			return append(hostile.Lines("F cpus -1", "F cpus 99999999999999999999", "F memory 9223372036854775807", "F arch \x1b[2J", "F os ../../x", "F path $(touch /x):'", "F lease 9223372036854775807"), f.Bytes())
		})
	})},
	{"facts without an end", frames(func() func(hostile.Frame) [][]byte {
		return hostile.One("F", func(f hostile.Frame) [][]byte {
			return [][]byte{[]byte("F tool " + strings.Repeat("x", 30_000) + "\n"), f.Bytes()}
		})
	})},
	{"unknown tasks", frames(func() func(hostile.Frame) [][]byte {
		return func(f hostile.Frame) [][]byte {
			return append(hostile.Lines("D nobody 0 - exit 1 0 0 0", "O nobody o 0 0", "Z nobody o 9", "V nobody"), f.Bytes())
		}
	})},
	{"ends twice", ended(func(f hostile.Frame) [][]byte { return [][]byte{f.Bytes(), f.Bytes(), f.Bytes()} })},
	{"ends before the start", frames(func() func(hostile.Frame) [][]byte {
		return hostile.One("S", func(f hostile.Frame) [][]byte {
			return append(hostile.Lines("D "+f.Words()[1]+" 0 - exit 1 0 0 0"), f.Bytes())
		})
	})},
	{"no ends", ended(func(hostile.Frame) [][]byte { return nil })},
	{"statuses out of range", ended(func(f hostile.Frame) [][]byte {
		return [][]byte{f.With(2, "-2147483649").Bytes()}
	})},
	{"a cause that is none", ended(func(f hostile.Frame) [][]byte { return [][]byte{f.With(4, "\x1b[2J").Bytes()} })},
	{"a signal of a screenful", ended(func(f hostile.Frame) [][]byte {
		return [][]byte{f.With(3, "SIG\x1b[2J"+strings.Repeat("X", 20_000)).With(4, "signal").Bytes()}
	})},
	{"output that never comes", ended(func(f hostile.Frame) [][]byte { return [][]byte{f.With(7, "1").Bytes()} })},
	{"output of no length", frames(func() func(hostile.Frame) [][]byte {
		return hostile.One("D", func(f hostile.Frame) [][]byte {
			id := f.Words()[1]
			return append([][]byte{f.With(7, "1").Bytes()}, hostile.Lines("Z "+id+" o 1152921504606846975", "O "+id+" o 1152921504606846974 5", "12345")...)
		})
	})},
	{"offsets that go back", frames(func() func(hostile.Frame) [][]byte {
		return hostile.One("D", func(f hostile.Frame) [][]byte {
			id := f.Words()[1]
			return append(hostile.Lines("G "+id, "O "+id+" o 0 5", "12345O "+id+" o 2 5", "12345O "+id+" e -1 5"), f.Bytes())
		})
	})},
	{"output after the end", ended(func(f hostile.Frame) [][]byte {
		return append([][]byte{f.Bytes()}, []byte("O "+f.Words()[1]+" o 5 100\n"+strings.Repeat("x", 100)))
	})},
	{"lines without an end", frames(func() func(hostile.Frame) [][]byte {
		return func(f hostile.Frame) [][]byte { return [][]byte{hostile.LongLine(1 << 20), f.Bytes()} }
	})},
	{"another client has the node", frames(func() func(hostile.Frame) [][]byte {
		return hostile.One("H", func(hostile.Frame) [][]byte { return hostile.Lines("E fenced") })
	})},
	{"another version", frames(func() func(hostile.Frame) [][]byte {
		return hostile.One("H", func(hostile.Frame) [][]byte { return hostile.Lines("E version \x1b[2J") })
	})},
	{"frames that are none", frames(func() func(hostile.Frame) [][]byte {
		return func(f hostile.Frame) [][]byte { return append(hostile.Lines("?", "", "OO x"), f.Bytes()) }
	})},
	{"unknown tasks, always", frames(func() func(hostile.Frame) [][]byte {
		return func(f hostile.Frame) [][]byte {
			if w := f.Words(); w[0] == "D" || w[0] == "S" || w[0] == "G" {
				return hostile.Lines("U " + w[1])
			}
			return [][]byte{f.Bytes()}
		}
	})},

	// Lies of the worker.
	{"a rejection of megabytes", messages(func() func(hostile.Message) [][]byte {
		return hostile.OfType(hostile.MessageWelcome, func(m hostile.Message) [][]byte {
			return [][]byte{hostile.Message{Type: hostile.MessageReject, Payload: append([]byte("\xa2dCodefbinarygMessage\x7a\x00\x30\x00\x00"), make([]byte, 3<<20)...)}.Bytes()}
		})
	})},
	{"a welcome of noise", messages(func() func(hostile.Message) [][]byte {
		return hostile.OfType(hostile.MessageWelcome, func(m hostile.Message) [][]byte {
			m.Payload = append([]byte{}, m.Payload...)
			for i := range m.Payload {
				m.Payload[i] ^= byte(i)
			}
			return [][]byte{m.Bytes()}
		})
	})},
	{"a worker that was taken over", messages(func() func(hostile.Message) [][]byte {
		return hostile.OfType(hostile.MessageResult, func(m hostile.Message) [][]byte {
			return [][]byte{hostile.Message{Type: hostile.MessageFenced}.Bytes()}
		})
	})},
	{"results that were not requested", results(func(m hostile.Message) [][]byte {
		var out [][]byte
		for id := range uint64(1000) {
			out = append(out, hostile.Message{Type: hostile.MessageResult, ID: id, Payload: m.Payload}.Bytes())
		}
		return append(out, m.Bytes())
	})},
	{"results twice", results(func(m hostile.Message) [][]byte { return [][]byte{m.Bytes(), m.Bytes()} })},
	{"results of nothing", results(func(m hostile.Message) [][]byte {
		m.Payload = nil
		return [][]byte{m.Bytes()}
	})},
	{"results of another type", results(func(m hostile.Message) [][]byte {
		return [][]byte{hostile.Result(m.ID, 5, []byte("\x64text")).Bytes()}
	})},
	{"results that are announced", results(func(m hostile.Message) [][]byte {
		return [][]byte{hostile.Result(m.ID, 1<<40, []byte("x")).Bytes(), hostile.Message{Type: hostile.MessageData, ID: m.ID, Payload: make([]byte, 1000)}.Bytes()}
	})},
	{"messages that are announced", results(func(m hostile.Message) [][]byte {
		m.Size = 1<<32 - 1
		return [][]byte{m.Bytes()}
	})},
	{"errors of megabytes", results(func(m hostile.Message) [][]byte {
		// [kind, function, message, type, stack, timed out, known]
		text := append([]byte("\x87\x01\x61f\x7a\x00\x30\x00\x00"), []byte(strings.Repeat("\x1b", 3<<20))...)
		text = append(text, []byte("\x61t\x61s\xf4\x80")...)
		m.Payload = append(hostile.ResultHeader(text), hostile.Uvarints(0, 0)...)
		return [][]byte{m.Bytes()}
	})},
	{"items that were not requested", results(func(m hostile.Message) [][]byte {
		return [][]byte{hostile.Message{Type: hostile.MessageItem, ID: m.ID, Payload: hostile.Uvarints(0, 1, 0, 7)}.Bytes(), m.Bytes()}
	})},
	{"credit without end", results(func(m hostile.Message) [][]byte {
		return [][]byte{hostile.Message{Type: hostile.MessageCredit, ID: m.ID, Payload: hostile.Uvarints(1<<64 - 1)}.Bytes(), m.Bytes()}
	})},
	{"more items than there are", results(func(m hostile.Message) [][]byte {
		m.Payload = append(hostile.Uvarints(1<<63), m.Payload[1:]...)
		return [][]byte{m.Bytes()}
	})},

	// Lies in all sessions, and outside sessions.
	{"no statuses", always(hostile.Lie{Exit: func(*hostile.Session, string, []byte) {}})},
	{"statuses of nonsense", always(hostile.Lie{Exit: func(s *hostile.Session, kind string, _ []byte) { s.Request(kind, false, []byte{1, 2}) }})},
	{"signals of megabytes", always(hostile.Lie{Exit: func(s *hostile.Session, _ string, _ []byte) {
		s.Signal(strings.Repeat("\x1b[2J", 5000), strings.Repeat("\x07", 20_000))
	}})},
	{"complaints of megabytes", always(hostile.Lie{Stderr: hostile.Flood([]byte("\x1b[2Jno\n"), 16<<20)})},
	{"answers of megabytes", always(hostile.Lie{Stdout: hostile.Flood([]byte("x\n"), 16<<20)}, hostile.Other)},
	{"refusals", always(hostile.Lie{Reply: func(string) hostile.Answer { return hostile.No }}, hostile.Other, hostile.Upload, hostile.Download, hostile.Find, hostile.Fetch)},
	{"requests that were not requested", always(hostile.Lie{Beside: func(s *hostile.Session) {
		for range 1000 {
			if s.Request("\x1b[2J", true, make([]byte, 1000)) != nil {
				return
			}
		}
	}})},
	{"channels that were not requested", bystander{banner: strings.Repeat("\x1b[2Jbanner\n", 1000), connect: func(c *xssh.ServerConn) {
		for range 200 {
			if ch, requests, err := c.OpenChannel("forwarded-tcpip", make([]byte, 1000)); err == nil {
				go xssh.DiscardRequests(requests)
				ch.Close()
			}
			if _, _, err := c.SendRequest("hostkeys-00@openssh.com", true, make([]byte, 10_000)); err != nil {
				return
			}
		}
	}}},
	{"ends of the connection", always(hostile.Lie{Beside: func(s *hostile.Session) { s.Shut() }}, hostile.Worker)},
}

// TestHostileNode makes one of two nodes lie, in many ways, during everything that a program does with a pool. Every
// operation returns, and the other node does its work.
func TestHostileNode(t *testing.T) {
	home := hostile.NewHome(t)
	t.Setenv("HOME", home.Dir)
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // for programs that are built for a node
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Chdir(home.Work)
	up := filepath.Join(t.TempDir(), "up")
	write(t, filepath.Join(up, "file"), "sent")
	t.Run("attacks", func(t *testing.T) {
		var slow, tests []sidebyside.Test
		for i, a := range attacks {
			of := []sidebyside.Test{
				{Name: a.name, Long: i%8 > 0 || a.name == "no ends", Run: func(t *testing.T) {
					v := newVictim(t, home, up)
					v.open(nil)
					v.cloud.lie(0, a.liar)
					v.cloud.at(0).HangUp()
					v.everything()
				}},
				{Name: a.name + ", from the start", Long: true, Run: func(t *testing.T) {
					v := newVictim(t, home, up)
					if v.open(a.liar) {
						v.everything()
					}
				}},
			}
			if a.name == "no ends" { // each takes as long as many others
				slow = append(slow, of...)
			} else {
				tests = append(tests, of...)
			}
		}
		sidebyside.Run(t, 8, append(slow, tests...))
	})
	for _, wrong := range home.Changes() {
		t.Error(wrong)
	}
}

// A victim is a program with a pool whose node 0 is hostile.
type victim struct {
	t     *testing.T
	taken string
	up    string
	state string
	cloud *cloud
	pool  *gputrain.Compute
}

func newVictim(t *testing.T, home *hostile.Home, up string) *victim {
	v := &victim{t: t, up: up, state: t.TempDir(), cloud: newCloud(t, local.Config{Dir: t.TempDir()}, home)}
	var err error
	t.Cleanup(v.reap)
	if v.taken, err = os.MkdirTemp(home.Taken, "pool"); err != nil {
		t.Fatal(err)
	}
	return v
}

// reap removes what a failed Attach left behind.
func (v *victim) reap() {
	v.cloud.lie(0, hostile.Honest{})
	if _, err := gputrain.StateDir(v.state).Reap(context.WithoutCancel(v.t.Context()), v.cloud); err != nil {
		v.t.Errorf("reap: %.500v", err)
	}
}

func (v *victim) options() []gputrain.Option {
	return []gputrain.Option{gputrain.WithStateDir(v.state), gputrain.WithResultsDir(filepath.Join(v.taken, "results")), gputrain.WithName("victim")}
}

// open opens the pool, whose node 0 lies from the start if first is not nil, and reports whether that succeeded.
func (v *victim) open(first hostile.Liar) bool {
	v.cloud.first = map[int]hostile.Liar{0: first}
	ctx, giveUp := context.WithCancel(v.t.Context())
	v.t.Cleanup(giveUp) // not before: the pool ends with it
	givenUp := func() bool { return false }
	if first != nil {
		patience := time.AfterFunc(5*time.Second, giveUp)
		givenUp = func() bool { return !patience.Stop() }
	}
	err := returns(v.t, func() (err error) {
		v.pool, err = gputrain.Open(ctx, v.cloud, gputrain.Spec{Nodes: 2, MaxReplacements: -1}, v.options()...)
		return err
	})
	late := givenUp()
	if err != nil && first == nil {
		v.t.Fatal(err)
	}
	wantShort(v.t, err)
	if err == nil && late { // in the moment in which it opened: the pool ends with its context
		wantShort(v.t, returns(v.t, v.pool.Close))
		return false
	}
	return err == nil
}

// everything runs every operation that a program may use.
func (v *victim) everything() {
	t := v.t
	bounded := func(rank int, do func(*gputrain.Compute) error) error {
		return returns(t, func() error {
			ctx, cancel := context.WithCancel(t.Context())
			if rank == 0 { // operations that the hostile node does not answer end with the context
				ctx, cancel = context.WithTimeout(t.Context(), time.Second)
			}
			defer cancel()
			return do(v.pool.WithContext(ctx))
		})
	}
	for name, do := range map[string]func(*gputrain.Compute, int) error{
		"task":    v.task,
		"call":    v.call,
		"stream":  v.stream,
		"outputs": v.outputs,
	} {
		good := make(chan error, 1)
		go func() { good <- bounded(1, func(c *gputrain.Compute) error { return do(c, 1) }) }()
		err := bounded(0, func(c *gputrain.Compute) error { return do(c, 0) })
		wantShort(t, err)
		if errors.Is(err, errWrong) {
			t.Errorf("%s: %v", name, err)
		}
		if err := <-good; err != nil {
			t.Errorf("%s on the good node: %v", name, err)
		}
	}
	v.upload()
	v.download()
	v.attach()
	err := returns(t, v.pool.Close)
	t.Logf("close: %.500v", err)
	wantShort(t, err)
	if v.cloud.leaked() {
		t.Error("a node has received the secret")
	}
}

// upload uploads to both nodes.
func (v *victim) upload() {
	v.both("upload", func(c *gputrain.Compute) error { return c.Upload(v.up, "up") }, func() bool {
		r, err := v.pool.Run(gputrain.Task{Script: "cat up/file", Target: gputrain.OnRank(1)})
		return err == nil && string(r.Stdout) == "sent"
	})
}

// download downloads from both nodes.
func (v *victim) download() {
	v.both("download", func(c *gputrain.Compute) error { return c.Download("up", filepath.Join(v.taken, "down")) }, func() bool {
		b, _ := os.ReadFile(filepath.Join(v.taken, "down", "1", "up", "file"))
		return string(b) == "sent"
	})
}

// both does something with both nodes. It gives up the hostile one a second after the good one has done its part.
func (v *victim) both(what string, do func(*gputrain.Compute) error, good func() bool) {
	ctx, giveUp := context.WithCancel(v.t.Context())
	done := make(chan error, 1)
	go func() { done <- do(v.pool.WithContext(ctx)) }()
	isDone := e2etest.Settles(good)
	defer time.AfterFunc(time.Second, giveUp).Stop()
	err := returns(v.t, func() error { return <-done })
	giveUp()
	wantShort(v.t, err)
	if !isDone {
		v.t.Errorf("the good node's %s does not arrive: %.500v", what, err)
	}
}

// attach takes over the pool, as another program would, and closes the previous Compute.
func (v *victim) attach() {
	ctx, giveUp := context.WithCancel(v.t.Context())
	defer time.AfterFunc(5*time.Second, giveUp).Stop()
	var pool *gputrain.Compute
	err := returns(v.t, func() (err error) {
		pool, err = gputrain.Attach(ctx, v.cloud, "victim", append(v.options(), gputrain.WithTakeover())...)
		return err
	})
	v.t.Logf("attach: %.500v", err)
	wantShort(v.t, err)
	if err != nil {
		return
	}
	wantShort(v.t, returns(v.t, v.pool.Close)) // does not end the nodes
	v.pool = pool
}

// errWrong means that an operation succeeded with a false result.
var errWrong = errors.New("a false result was accepted")

// task runs a command. The node may lie about its output.
func (v *victim) task(c *gputrain.Compute, rank int) error {
	task := gputrain.Task{Script: "echo said; echo beside >&2", Target: gputrain.OnRank(rank)}
	if rank == 0 {
		task.Timeout = 2 * time.Second
	}
	r, err := c.Run(task)
	if rank == 1 && err == nil && string(r.Stdout) != "said\n" {
		return fmt.Errorf("%w: %q", errWrong, r.Stdout)
	}
	if err == nil && r.ExitCode != 0 || r.Elapsed < 0 {
		return fmt.Errorf("%w: exit code %d after %v", errWrong, r.ExitCode, r.Elapsed)
	}
	return err
}

func (v *victim) call(c *gputrain.Compute, rank int) error {
	task := double.Call(21)
	task.Target = gputrain.OnRank(rank)
	r, err := c.Run(task)
	if err != nil {
		return err
	}
	n, err := double.Value(r)
	if rank == 1 && err == nil && n != 42 {
		return fmt.Errorf("%w: %d", errWrong, n)
	}
	return err
}

func (v *victim) stream(c *gputrain.Compute, rank int) error {
	if rank == 1 { // the stream runs on any node with capacity
		return nil
	}
	n := 0
	for _, err := range count.Run(c, 1000) {
		if err != nil {
			return err
		}
		n++
	}
	if n > 1000 {
		return fmt.Errorf("%w: %d items", errWrong, n)
	}
	return nil
}

// outputs fetches files and compares them with the result.
func (v *victim) outputs(c *gputrain.Compute, rank int) error {
	task := gputrain.Script("mkdir -p out; echo good >out/file")
	task.Target, task.Outputs = gputrain.OnRank(rank), []string{"out/*"}
	r, err := c.Run(task)
	if e := checkOutputs(r); e != nil {
		return fmt.Errorf("%w: %w", errWrong, e)
	}
	if rank == 1 && err == nil && len(r.Outputs) != 1 {
		return fmt.Errorf("%w: %d files", errWrong, len(r.Outputs))
	}
	return err
}

// wantShort checks that an error does not contain a node's whole answer, and has no control characters that could
// affect a terminal.
func wantShort(t testing.TB, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if text := err.Error(); len(text) > 100<<10 {
		t.Errorf("an error has %d bytes: %.200q", len(text), text)
	} else if strings.ContainsAny(text, "\x1b\x07") {
		t.Errorf("an error has control characters: %.300q", text)
	}
}
