package supervisor

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gputrain/gputrain/internal/printable"
	"github.com/gputrain/gputrain/internal/ssh"
)

//go:embed node.sh
var nodeScript string

//go:embed tasks.sh
var tasksScript string

//go:embed session.pl
var sessionScript string

//go:embed runner.pl
var runnerScript string

// The scripts are sent without comments and indentation, and without perl's strict: these are for readers, and a node
// takes as long to load them as perl itself.
var script, plain, session, runner = bare(nodeScript), bare(tasksScript), bare(sessionScript), bare(runnerScript)

func bare(text string) string {
	return regexp.MustCompile(`(?m)^\t*(#.*)?\n|^\t+|^use strict;\n`).ReplaceAllString(text, "")
}

// opening begins a control session. It includes tasks.sh as text, for sessions that need it. Its preamble makes bash
// read all of it at once: otherwise bash reads its stdin byte by byte, which takes longer than everything that the
// script does. A bash that is too old for that reads line by line, like other shells, which read blocks.
var opening = openingOf(script)

func openingOf(script string) string {
	text := script + "gt_plain=" + quote(plain) + "\n"
	return "[ -z \"${BASH_VERSION-}\" ] || IFS= read -r -N " + strconv.Itoa(len(text)) + " gt_l 2>/dev/null && eval \"$gt_l\"\n" + text
}

// A control is one session with a shell on the node. The shell has read node.sh, and then executes the calls that it is
// sent, or has replaced itself by session.pl. Its stdout carries frames.
type control struct {
	s      *ssh.Session
	frames *decoder
	stop   context.CancelFunc
	wg     sync.WaitGroup

	runner bool // the session is session.pl's

	mu    sync.Mutex
	queue []byte        // calls to be sent: many go out as one write
	wake  chan struct{} // signals that queue has grown
}

// An entry is the way in which a session enters a pool: gt_open's HOW.
type entry string

const (
	starting  entry = "start"  // it makes the pool's folder, and arms the watcher
	attaching entry = "attach" // it takes over from another program
	again     entry = "again"  // it takes over from another session of this program
)

// protocol is the version of the protocol between clients and the node's files. Every change of it takes another
// version.
const protocol = "3"

// An answer is the node's answer to a start or an attach.
type answer struct {
	facts Facts
	found []found
}

// If a node is given up while it is taken over, it has goodbye to report the end of its session. One that is gone never
// does.
const goodbye = time.Second

// openControl starts the shell and takes the pool over with it.
func openControl(ctx context.Context, c Client, cfg Config, how entry, beat string) (*control, answer, error) {
	var told answer
	s, err := c.Open(ctx, cfg.command())
	if err != nil {
		return nil, told, err
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	k := &control{s: s, frames: newDecoder(s), stop: stop, wake: make(chan struct{}, 1)}
	complaint := &tail{}
	// The buffer is small: hardly anything comes.
	k.wg.Go(func() { io.CopyBuffer(complaint, s.Stderr, make([]byte, 512)) })
	k.wg.Go(func() { k.write(life) })
	interrupted := context.AfterFunc(ctx, func() {
		if how == again {
			s.Close() // others may use the connection
			return
		}
		s.CloseWithin(goodbye)
	})
	k.put([]byte(opening + "echo '" + hello + "'\n" + cfg.open(how, beat) + "gt_ready\n"))
	if err = k.frames.greet(); err == nil {
		err = k.opened(&told.facts)
	}
	if err == nil && how != again {
		err = told.facts.check()
	}
	if err == nil && how == attaching {
		k.send(newCall("list"))
		told.found, err = k.listed()
	}
	if interrupted() && err == nil {
		return k, told, nil
	}
	return nil, told, k.failed(ctx, err, complaint)
}

// opened reads the answer to gt_open and gt_ready.
func (k *control) opened(facts *Facts) error {
	for told := 0; told < mostTold; {
		f, err := k.frames.next()
		told += len(f.line) + 1
		switch {
		case err != nil:
			return err
		case f.kind == 'H' && len(f.words) == 2:
			k.runner = f.words[1] == "perl"
			return nil
		case f.kind == 'F' && len(f.words) == 2:
			facts.add(f.words[0], f.words[1])
		case f.kind == 'E':
			return refusal(f.words)
		}
	}
	return fmt.Errorf("%w: its facts have more than %d bytes", errFrame, mostTold)
}

// A node whose facts have more than mostTold bytes breaks the protocol.
const mostTold = 256 << 10

// refusal returns why gt_open did not take the pool.
func refusal(words []string) error {
	why := strings.Join(words, " ")
	if theirs, ok := strings.CutPrefix(why, "version "); ok {
		return fmt.Errorf("%w: the node's is %.20q, this program's %q", ErrVersion, theirs, protocol)
	}
	switch why {
	case "fenced":
		return ErrFenced
	case "gone":
		return ErrLapsed
	case "restarted":
		return ErrRestarted
	case "root":
		return errors.New("cannot make a folder for the pool: neither the home folder nor TMPDIR (or /tmp) can be written to, or the disk is full")
	case "full":
		return errors.New("cannot write to the pool's folder: is the disk full?")
	case "runner":
		return errRunner
	case "setsid":
		return errors.New("the node has none of setsid, bash, python3 and perl: install util-linux")
	case "od":
		return errors.New("the node has no od: install coreutils")
	}
	return fmt.Errorf("%w: refused: %.20q", errFrame, why)
}

var (
	errEnded  = errors.New("the node's shell ended at once")
	errRunner = errors.New("cannot start the process that runs the node's tasks: is the disk full?")
)

// failed closes a control that did not come up and returns the reason.
func (k *control) failed(ctx context.Context, err error, complaint *tail) error {
	ended := err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	if ended {
		// A cut connection looks like this too, and Wait reports it only for a session that was not closed here.
		select {
		case <-k.s.Done():
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	k.close()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if w := k.s.Wait(); ended && (errors.Is(w, ssh.ErrDisconnected) || errors.Is(w, ssh.ErrNoCommand)) {
		return w
	}
	if ended {
		err = errEnded
	}
	if s := complaint.String(); s != "" {
		return fmt.Errorf("%w: stderr: %s", err, s)
	}
	return err
}

// serve passes the frames of the session to handle until it ends, and records when they arrive. handle never waits for
// a sink, so that one slow task does not hold up the others.
func (k *control) serve(heard *atomic.Int64, handle func(*control, *frame) error) error {
	for {
		f, err := k.frames.next()
		if err == nil {
			heard.Store(time.Now().UnixNano())
			err = handle(k, &f)
		}
		if err != nil {
			return err
		}
	}
}

// send queues calls. It does not block.
func (k *control) send(calls ...*call) {
	var b []byte
	for _, c := range calls {
		if k.runner {
			b = c.appendMessage(b)
		} else {
			b = c.appendShell(b)
		}
	}
	k.put(b)
}

// put queues what is in b.
func (k *control) put(b []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.queue = append(k.queue, b...)
	clear(b) // it may hold secrets
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// write sends what is queued until the control is closed.
func (k *control) write(life context.Context) {
	for {
		select {
		case <-life.Done():
			return
		case <-k.wake:
		}
		k.mu.Lock()
		out := k.queue
		k.queue = nil
		k.mu.Unlock()
		_, err := k.s.Write(out)
		clear(out) // it may hold secrets
		if err != nil {
			return // the reader notices the end too
		}
	}
}

// abort ends the session from outside: its reader then gets the end. It does not block.
func (k *control) abort() { k.wg.Go(func() { k.s.Close() }) }

// close ends the session, and waits until all its goroutines here have ended.
func (k *control) close() {
	k.stop()
	k.s.Close()
	k.wg.Wait()
}

// command returns the command that starts the control session's shell. With perl the shell has little to do, and sh is
// smaller. Otherwise bash is preferred, because it can put a command into a process group of its own without another
// program, and without making it ignore SIGINT; -p keeps it from reading BASH_ENV, and from the options and functions of the login.
func (c Config) command() string {
	env := "exec env GPUTRAIN_POOL=" + c.PoolID + " GPUTRAIN_NODE=" + c.Name + " "
	if c.Shell != "" {
		return env + c.Shell
	}
	return "exec sh -c 'export GPUTRAIN_POOL=" + c.PoolID + " GPUTRAIN_NODE=" + c.Name + "; command -v perl >/dev/null || ! command -v bash >/dev/null || exec bash -p; exec sh'"
}

// open returns the call of gt_open.
func (c Config) open(how entry, beat string) string {
	lease := seconds(c.Lease)
	interval := min(max(lease/10, 1), 30)
	ttlText := "0"
	if c.TTL > 0 {
		interval = max(min(interval, seconds(c.TTL)/10), 1)
		ttlText = strconv.FormatInt(seconds(c.TTL), 10)
	}
	disk := "0"
	if c.Disk {
		disk = "1"
	}
	l := newCall("open", c.Root, c.Name, string(how), protocol, strconv.Itoa(c.Generation), beat,
		strconv.FormatInt(interval, 10), strconv.FormatInt(lease, 10), ttlText, c.SelfDestruct, disk)
	if how == starting && !c.Plain {
		l.args(session, runner)
	} else {
		l.args("", "")
	}
	return strings.TrimSuffix(l.String(), "\n") + " || exit 1\n"
}

// seconds rounds up.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// A tail keeps the end of what is written to it.
type tail struct {
	mu sync.Mutex
	b  []byte
}

const tailBytes = 2 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if len(t.b) > tailBytes {
		t.b = append(t.b[:0], t.b[len(t.b)-tailBytes:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(printable.Text(string(t.b)))
}
