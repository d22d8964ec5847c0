package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/observe"
	"github.com/gputrain/gputrain/providers/local"
)

// victimEnv makes the test program one that opens a pool, says so, and waits to be killed.
const victimEnv = "POOLS_TEST_VICTIM"

func TestMain(m *testing.M) {
	gputrain.Init()
	if text := os.Getenv(victimEnv); text != "" {
		var v victim
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			panic(err)
		}
		v.play()
		return
	}
	m.Run()
}

// A place is a state directory, and a folder of local nodes.
type place struct{ state, nodes string }

func newPlace(t *testing.T) place {
	t.Helper()
	p := place{t.TempDir(), t.TempDir()}
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	return p
}

func (p place) provider() string { return fmt.Sprintf(`local={"dir": %q}`, p.nodes) }

// A victim is a program that is killed while it has a pool.
type victim struct {
	State, Nodes, Name, File string
	Scripts                  map[string]string
}

func (v victim) play() {
	opts := []gputrain.Option{gputrain.WithStateDir(v.State), gputrain.WithName(v.Name)}
	if v.File != "" {
		rec, err := observe.New(observe.Config{File: v.File})
		if err != nil {
			panic(err)
		}
		opts = append(opts, rec.Option())
	}
	pool, err := gputrain.Open(context.Background(), local.Config{Dir: v.Nodes}, gputrain.Spec{Lease: time.Hour}, opts...)
	if err != nil {
		panic(err)
	}
	for name, script := range v.Scripts {
		task := gputrain.Script(script)
		task.Name = name
		pool.Start(task)
	}
	fmt.Println(pool.ID())
	io.Copy(io.Discard, os.Stdin)
	pool.Close()
}

// start starts the victim, and returns its pool's ID, and what kills it.
func (v victim) start(t *testing.T) (id string, kill func()) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal(v)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), victimEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() {
		cmd.Process.Kill()
		cmd.Wait()
		stdin.Close()
	}
	t.Cleanup(kill)
	if _, err := fmt.Fscanln(stdout, &id); err != nil {
		t.Fatal("it has no pool:", err)
	}
	return id, kill
}

// dead makes a pool whose program was killed, and returns its ID.
func dead(t *testing.T, p place, name string, scripts map[string]string) string {
	t.Helper()
	id, kill := victim{State: p.state, Nodes: p.nodes, Name: name, Scripts: scripts}.start(t)
	if len(scripts) > 0 {
		waitFor(t, "tasks to begin", func() bool {
			found, _ := filepath.Glob(filepath.Join(p.nodes, "*", "*", "begun"))
			more, _ := filepath.Glob(filepath.Join(p.nodes, "*", "begun"))
			return len(found)+len(more) > 0
		})
	}
	kill()
	return id
}

func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("waiting for", what)
		}
	}
}

// A printed is the output of a command line, with its exit status.
type printed struct {
	out, err string
	code     int
}

// pools runs a command line.
func pools(t *testing.T, args ...string) printed {
	t.Helper()
	return answered(t, "", args...)
}

// answered runs a command line with a person's answer, or without a person if that is empty.
func answered(t *testing.T, answer string, args ...string) printed {
	t.Helper()
	var out, err bytes.Buffer
	a := &app{in: strings.NewReader(answer), out: &out, err: &err, asks: answer != ""}
	code := a.main(t.Context(), args)
	return printed{out.String(), err.String(), code}
}

// interrupted runs a command line that does not end by itself, and interrupts it, as Ctrl-C does, once it has printed a text.
func interrupted(t *testing.T, once string, args ...string) printed {
	t.Helper()
	ctx, interrupt := context.WithTimeout(t.Context(), 2*time.Minute)
	defer interrupt()
	out := awaited{text: once, found: interrupt}
	var err awaited
	a := &app{in: strings.NewReader(""), out: &out, err: &err}
	code := a.main(ctx, args)
	return printed{out.String(), err.String(), code}
}

// An awaited keeps what is written, and calls found once that has a text.
type awaited struct {
	text  string
	found func()

	mu  sync.Mutex
	buf bytes.Buffer
}

func (w *awaited) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf.Write(p)
	if w.found != nil && strings.Contains(w.buf.String(), w.text) {
		w.found()
	}
	return len(p), nil
}

func (w *awaited) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

// wants checks what was printed, by patterns.
func (s printed) wants(t *testing.T, code int, out, err string) {
	t.Helper()
	wrong := s.code != code
	for _, of := range [][2]string{{out, s.out}, {err, s.err}} {
		if !regexp.MustCompile(of[0]).MatchString(of[1]) {
			t.Errorf("nothing matches %s", of[0])
			wrong = true
		}
	}
	if wrong {
		t.Errorf("the exit status is %d, want %d; stdout:\n%sstderr:\n%s", s.code, code, s.out, s.err)
	}
}

// decode reads JSON.
func decode[T any](t *testing.T, s printed) (v T) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(s.out))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil || s.code != 0 {
		t.Fatalf("%d, %v:\n%s%s", s.code, err, s.out, s.err)
	}
	return v
}

// open opens a pool in this program.
func open(t *testing.T, p place, nodes int, opts ...gputrain.Option) *gputrain.Compute {
	t.Helper()
	pool, err := gputrain.Open(t.Context(), local.Config{Dir: p.nodes}, gputrain.Spec{Nodes: nodes}, append(opts, gputrain.WithStateDir(p.state))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	return pool
}
