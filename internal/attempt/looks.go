package attempt

import (
	"context"
	"errors"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/bounded"
	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/steps"
	"github.com/gputrain/gputrain/internal/supervisor"
)

const (
	// The step files of a command are looked for after firstLook, and then every lookPause once there are some. Until then
	// the command is looked at again after as long as it has run, but after mostPause at most.
	firstLook, lookPause, mostPause = 10 * time.Second, 10 * time.Second, 5 * time.Minute
	// lookPatience bounds one look.
	lookPatience = 10 * time.Second
	// A look is at mostLooks commands: their names must fit into one command.
	mostLooks = 500
)

// looks read the step files of the commands that run: with one command on a node for all that run there. The zero value
// reads none.
type looks struct {
	mu    sync.Mutex
	nodes map[Supervisor]*look
}

// A look reads those of one node. looks.mu guards it.
type look struct {
	all   *looks
	node  Node
	files map[*stepFiles]struct{}
	timer *time.Timer
	ctx   context.Context // ends with the last of files
	end   context.CancelFunc
	busy  sync.WaitGroup
}

// stepFiles are those of one attempt.
type stepFiles struct {
	a         *Attempt
	s         Supervisor
	n         Node
	dir, name string    // the folder that has the attempt's, and its name there
	began     time.Time // of the attempt
	due       time.Time // when to look next; guarded by looks.mu

	mu    sync.Mutex
	known map[int]string // what they had, by rank
	over  bool
}

// begin begins to look at the step files of an attempt. It returns nil if the caller wants to know of no progress.
func (l *looks) begin(n Node, s Supervisor, a *Attempt, scratch string) *stepFiles {
	if a.Progress == nil && a.Stall == nil || scratch == "" {
		return nil
	}
	now, folder := time.Now(), supervisor.Steps(scratch)
	f := &stepFiles{a: a, s: s, n: n, dir: path.Dir(folder), name: path.Base(folder), began: now, due: now.Add(firstLook), known: map[int]string{}}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.nodes == nil {
		l.nodes = map[Supervisor]*look{}
	}
	on := l.nodes[s]
	if on == nil {
		on = &look{all: l, node: n, files: map[*stepFiles]struct{}{}}
		on.ctx, on.end = context.WithCancel(context.Background())
		on.timer = time.AfterFunc(firstLook, on.turn)
		l.nodes[s] = on
	}
	on.files[f] = struct{}{}
	return f
}

// finish ends the looks at an attempt's step files. If some are left they are read once more.
func (l *looks) finish(f *stepFiles, left bool) {
	if f == nil {
		return
	}
	l.mu.Lock()
	on := l.nodes[f.s]
	delete(on.files, f)
	last := len(on.files) == 0
	if last {
		delete(l.nodes, f.s)
		on.timer.Stop()
		on.end()
	}
	l.mu.Unlock()
	if last {
		on.busy.Wait()
	}
	if left {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(f.a.Context), lookPatience)
		defer cancel()
		_ = read(ctx, f.n, f) // the steps that came before are what is known
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
}

// turn looks at what is due. The timer calls it.
func (o *look) turn() {
	o.all.mu.Lock()
	if o.ctx.Err() != nil {
		o.all.mu.Unlock()
		return
	}
	o.busy.Add(1)
	defer o.busy.Done()
	now := time.Now()
	var due []*stepFiles
	for f := range o.files {
		if !now.Before(f.due) {
			due = append(due, f)
		}
	}
	o.all.mu.Unlock()
	for some := range slices.Chunk(due, mostLooks) {
		if o.node.IsUp() {
			ctx, cancel := context.WithTimeout(o.ctx, lookPatience)
			_ = read(ctx, o.node, some...) // it is tried again
			cancel()
		}
	}
	o.all.mu.Lock()
	defer o.all.mu.Unlock()
	if o.ctx.Err() != nil {
		return
	}
	now = time.Now()
	for _, f := range due {
		f.due = now.Add(f.pause(now))
	}
	next := mostPause
	for f := range o.files {
		next = min(next, f.due.Sub(now))
	}
	o.timer.Reset(max(next, time.Second)) // so that those due at about the same time are read together
}

// ask reads the attempt's step files now. Its error says that the node could not be heard, or that nothing has begun there.
func (f *stepFiles) ask(ctx context.Context) error {
	if f == nil {
		return errors.New("the attempt has not begun")
	}
	return read(ctx, f.n, f)
}

// pause returns how long until the next look.
func (f *stepFiles) pause(now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.known) > 0 {
		return lookPause
	}
	return min(max(now.Sub(f.began), lookPause), mostPause)
}

// read reads the step files of attempts that run on one node. Its error says that the node could not be heard.
func read(ctx context.Context, n Node, all ...*stepFiles) error {
	byName := map[string]*stepFiles{}
	for _, f := range all {
		byName[f.name] = f
	}
	dir, err := supervisor.Quote(all[0].dir)
	if err != nil {
		return err
	}
	command := "cd " + dir + " && exec grep -sm1 -H ''"
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		quoted, err := supervisor.Quote(name)
		if err != nil {
			return err
		}
		command += " " + quoted + "/[0-9]*"
	}
	var out bounded.Buffer
	if err := n.Exec(ctx, command, strings.NewReader(""), &out, io.Discard); unheard(ctx, err) {
		return err
	}
	for line := range strings.Lines(out.String()) {
		at, content, _ := strings.Cut(line, ":")
		name, file, _ := strings.Cut(at, "/")
		if rank, err := strconv.Atoi(file); err == nil && byName[name] != nil {
			byName[name].found(rank, strings.TrimRight(content, "\r\n"))
		}
	}
	return nil
}

// unheard reports whether the error of a command on a node says that the node was not heard: a command that fails was.
func unheard(ctx context.Context, err error) bool {
	return err != nil && (ctx.Err() != nil || errors.Is(err, ssh.ErrDisconnected) || errors.Is(err, ssh.ErrStalled) || errors.Is(err, ssh.ErrClosed))
}

// found records the content of a step file.
func (f *stepFiles) found(rank int, content string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, ok := steps.ParseFile(content, rank)
	if f.over || !ok || f.known[rank] == content || len(f.known) == mostRanks && f.known[rank] == "" {
		return
	}
	f.known[rank] = content
	f.a.Stepped(s)
}

// mostRanks bounds the step files of one attempt.
const mostRanks = 1 << 12
