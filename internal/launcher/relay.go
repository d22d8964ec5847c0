package launcher

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/ssh"
)

//go:embed relay.sh
var relayScript string

// A Relay starts the daemons that mpirun wants to start on the other nodes of a gang, in place of SSH: an agent on the first node
// writes each request into a folder, from which the relay takes it. It starts nothing but Open MPI's own daemons.
type Relay struct {
	// Open starts a command on the first node and returns its stdout and stdin. It waits for a connection that is
	// down.
	Open func(ctx context.Context, command string) (io.ReadWriteCloser, error)
	// Scratch is the scratch folder of the attempt at mpirun, absolute.
	Scratch string
	// Nodes are the addresses of the gang's nodes, by rank.
	Nodes []string
	// Start runs a command, which is a text for sh, on a node, in the folder in which the node's processes are to run, and
	// returns its exit code. It is called at the same time for several nodes. If it fails the agent exits with 255, as ssh does.
	Start func(ctx context.Context, node int, command string) (exit int, err error)
}

// Over returns a Relay.Open that uses a node's connection.
func Over(node interface {
	Open(ctx context.Context, command string) (*ssh.Session, error)
}) func(context.Context, string) (io.ReadWriteCloser, error) {
	return func(ctx context.Context, command string) (io.ReadWriteCloser, error) { return node.Open(ctx, command) }
}

// Bounds of what the first node may ask for. The longest request that is known has a few KiB.
const (
	maxRequest  = 1 << 20
	maxRequests = 4 // for each node
	maxLine     = 64
)

// The folder is looked at often at first, since the start of the gang waits for it. Then mostly nothing comes.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = 2 * time.Second
)

// A session that fails is opened again, unless mostSessions in a row have failed at once.
const mostSessions = 6

// ErrRelay means that the first node asked for what mpirun does not ask for.
var ErrRelay = errors.New("the agent of mpirun")

// Run serves requests until ctx ends, which is no error. It then waits for what it has started, whose contexts end too.
// A session that was cut is opened again, and nothing is started twice. The error is ErrRelay, or why no session works.
func (r *Relay) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	s := &relaying{Relay: r, started: map[string]bool{}, ended: make(chan answer)}
	defer s.running.Wait()
	defer cancel()
	for failed := 1; ; failed++ {
		worked, err := s.serve(ctx)
		if worked {
			failed = 1
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrRelay), failed == mostSessions:
			return fmt.Errorf("follow mpirun: %w", err)
		}
		rest(ctx, firstPause<<failed)
	}
}

// rest waits for d, or until ctx ends.
func rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// relaying is a Relay at work.
type relaying struct {
	*Relay
	started map[string]bool // by the agent's ID
	ended   chan answer
	answers []answer // that the node may not have yet
	running sync.WaitGroup
}

// An answer is the exit code that an agent waits for.
type answer struct {
	id   string
	code int
}

// serve serves requests over one session, until that fails. worked reports that it served at all.
func (r *relaying) serve(ctx context.Context) (worked bool, err error) {
	session, err := r.Open(ctx, "exec sh -c "+word(relayScript)+" sh "+word(r.Scratch+"/mpi")+" 2>/dev/null")
	if err != nil {
		return false, err
	}
	defer session.Close()
	defer context.AfterFunc(ctx, func() { session.Close() })()
	in := bufio.NewReaderSize(session, maxLine)
	for pause := firstPause; ; pause = min(pause*2, lastPause) {
		any, err := r.look(ctx, session, in)
		if err != nil {
			return worked, err
		}
		worked = true
		if any {
			pause = firstPause
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case a := <-r.ended:
			r.answers = append(r.answers, a)
		}
		timer.Stop()
		if ctx.Err() != nil {
			return worked, ctx.Err()
		}
	}
}

// look answers what has ended, starts what is new, and reports whether anything was.
func (r *relaying) look(ctx context.Context, out io.Writer, in *bufio.Reader) (any bool, err error) {
	for _, a := range r.answers {
		if _, err := fmt.Fprintf(out, "answer %s %d\n", a.id, a.code); err != nil {
			return false, err
		}
	}
	answered := len(r.answers)
	if _, err := io.WriteString(out, "list\n"); err != nil {
		return false, err
	}
	requests, err := readList(in)
	if err != nil {
		return false, err
	}
	r.answers = r.answers[answered:] // the list came after them
	for _, q := range requests {
		if r.started[q.id] {
			continue
		}
		if len(r.started) == maxRequests*len(r.Nodes) {
			return false, fmt.Errorf("%w: node 0 asked for more than %d daemons", ErrRelay, len(r.started))
		}
		if _, err := fmt.Fprintf(out, "get %s\n", q.id); err != nil {
			return false, err
		}
		text := make([]byte, q.size)
		if _, err := io.ReadFull(in, text); err != nil {
			return false, err
		}
		if err := r.start(ctx, q.id, string(text)); err != nil {
			// The agent ends, and mpirun with it. The list comes after that.
			if _, failed := fmt.Fprintf(out, "answer %s 255\nlist\n", q.id); failed == nil {
				_, _ = readList(in)
			}
			return false, err
		}
		any = true
	}
	return any || answered > 0, nil
}

// start starts a request: the address of a node, and the command from the second line on.
func (r *relaying) start(ctx context.Context, id, text string) error {
	host, asked, _ := strings.Cut(text, "\n")
	node := slices.Index(r.Nodes, host)
	if node < 0 {
		return fmt.Errorf("%w: node 0 asked for a daemon on %.40q, which is not in the gang: its nodes are %s",
			ErrRelay, host, strings.Join(r.Nodes, ", "))
	}
	command, err := daemon(asked)
	if err != nil {
		return err
	}
	command = "export GPUTRAIN_MPI_DIR=\"$PWD\"\n" + command
	r.started[id] = true
	r.running.Go(func() {
		code, err := r.Start(ctx, node, command)
		if err != nil {
			code = 255
		}
		select {
		case r.ended <- answer{id, code}:
		case <-ctx.Done():
		}
	})
	return nil
}

// A request is an agent's file.
type request struct {
	id   string
	size int
}

var idPattern = regexp.MustCompile(`^[0-9]{1,10}$`)

// readList reads the answer to list.
func readList(in *bufio.Reader) (all []request, err error) {
	for {
		line, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("%w: node 0 sent a line of more than %d bytes", ErrRelay, maxLine)
		case err != nil:
			return nil, err
		}
		text := strings.TrimSuffix(string(line), "\n")
		if text == "." {
			return all, nil
		}
		id, size, _ := strings.Cut(text, " ")
		n, err := strconv.Atoi(strings.TrimSpace(size)) // some wc pad
		if err != nil || !idPattern.MatchString(id) || n < 0 || n > maxRequest || len(all) == maxListed {
			return nil, fmt.Errorf("%w: node 0 listed %.40q", ErrRelay, text)
		}
		all = append(all, request{id, n})
	}
}

// maxListed bounds a list, of which requests that were answered are no part.
const maxListed = 10_000
