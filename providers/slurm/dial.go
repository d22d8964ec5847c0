package slurm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/hops"
	"github.com/gputrain/gputrain/internal/localnet"
	gossh "github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/providers/driver"
)

// dialTimeout bounds a direct connection to a node.
const dialTimeout = 10 * time.Second

// Dial connects to the SSH server of a job: by the login node's forwarding or, if that is forbidden, by a step of the job,
// and on the login node itself by TCP.
func (d *slurmDriver) Dial(ctx context.Context, in driver.Instance) (net.Conn, error) {
	j, err := d.running(ctx, in.ID)
	if err != nil {
		return nil, fail("dial", err)
	}
	conn, err := d.dial(ctx, j)
	if err != nil {
		return nil, fail("dial", fmt.Errorf("job %s at %s: %w", j.id, j.comment.addr, err))
	}
	return conn, nil
}

// running returns a job that has an address.
func (d *slurmDriver) running(ctx context.Context, id string) (job, error) {
	q, err := d.queueOf(ctx, id)
	if err != nil {
		return job{}, err
	}
	j, ok := d.find(q, id)
	if !ok || !stateOf(j.state).comesUp || j.comment.addr == "" {
		return job{}, &driver.Error{Kind: driver.ErrNotFound, Err: fmt.Errorf("job %s does not run, or has no SSH server yet", id)}
	}
	return j, nil
}

// dial connects to the address in the job's comment, which root of a compute node can write too. It may be one of the login
// node's, where jobs can run, but none that no machine has.
func (d *slurmDriver) dial(ctx context.Context, j job) (net.Conn, error) {
	if host, _, err := hops.Split(j.comment.addr); err == nil {
		if a, ok := localnet.Parse(host); ok && localnet.Reserved(a) != "" {
			return nil, &driver.Error{Kind: driver.ErrUnavailable, Err: fmt.Errorf("%w: %s is an address %s; nothing was sent", localnet.ErrLocal, host, localnet.Reserved(a))}
		}
	}
	l, remote := d.shell.(*login)
	if !remote {
		return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", j.comment.addr)
	}
	client, err := l.Client(ctx)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	steps := d.steps
	d.mu.Unlock()
	if steps {
		return step(ctx, client, j, d.stepCommand(j))
	}
	host, port, err := hops.Split(j.comment.addr)
	if err != nil {
		return nil, err
	}
	t, err := gossh.Forward(ctx, client, host, port)
	switch {
	case err == nil:
		return gossh.Conn(t, j.comment.addr), nil
	case !errors.Is(err, gossh.ErrForbidden):
		return nil, err
	case d.cfg.Reach == ReachForward || d.cfg.Container != "":
		return nil, &driver.Error{Kind: driver.ErrUnsupported, Err: err, Hint: "set Reach to auto, and no Container: a step of the job carries the bytes then"}
	}
	conn, err := step(ctx, client, j, d.stepCommand(j))
	if err == nil {
		d.mu.Lock()
		d.steps = true
		d.mu.Unlock()
	}
	return conn, err
}

// stepCommand returns the command that connects its standard input and output to an SSH server in the job. It asks for
// no GPUs, as they are the job's already, and for no memory of its own.
func (d *controller) stepCommand(j job) string {
	words := d.slurm("srun", "--jobid="+j.id, "--overlap", "--quiet", "--unbuffered", "--nodes=1", "--ntasks=1", "--mem=0", "sh", "-c",
		"exec "+quote(d.cfg.SSHD)+" -i -E "+quote(j.comment.dir+"/log")+" -f "+quote(j.comment.dir+"/sshd_config"))
	for i, w := range words {
		words[i] = quote(w)
	}
	return d.ahead + "exec env -u SLURM_JOB_ID -u SLURM_CLUSTERS " + strings.Join(words, " ")
}

// step connects by a step of the job, which a command on the login node runs.
func step(ctx context.Context, client *gossh.Client, j job, command string) (net.Conn, error) {
	if j.comment.dir == "" {
		return nil, errors.New("the job's comment does not have its folder")
	}
	s, err := client.Open(ctx, command)
	if err != nil {
		return nil, err
	}
	t := &stepTunnel{Session: s}
	t.wg.Go(func() { io.Copy(&t.said, s.Stderr) })
	first := make(chan error, 1)
	t.wg.Go(func() {
		// The server speaks first. If it is silent, srun has said why.
		n, err := io.ReadFull(s, t.greeting[:])
		t.rest = t.greeting[:n]
		first <- err
	})
	select {
	case err = <-first:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		s.CloseWithin(time.Second)
		t.wg.Wait()
		return nil, fmt.Errorf("srun: %w%s", err, afterColon(lastLines(t.said.String())))
	}
	return gossh.Conn(t, j.comment.addr), nil
}

// A stepTunnel is a connection over the standard input and output of srun.
type stepTunnel struct {
	*gossh.Session
	wg       sync.WaitGroup
	said     tail
	greeting [4]byte
	rest     []byte // of the greeting, not yet read
}

func (t *stepTunnel) Read(p []byte) (int, error) {
	if len(t.rest) > 0 {
		n := copy(p, t.rest)
		t.rest = t.rest[n:]
		return n, nil
	}
	return t.Session.Read(p)
}

// Ended is closed when srun has ended.
func (t *stepTunnel) Ended() <-chan struct{} { return t.Done() }

// A tail keeps the last of what srun says.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	const most = 4 << 10
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-most):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
