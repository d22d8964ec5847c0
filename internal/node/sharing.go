package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/bootstrap"
	"github.com/gputrain/gputrain/internal/output"
	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/providers/driver"
)

// A sharing is NVIDIA's Multi-Process Service (MPS) on a node, by which tasks share a device. Its control daemon is a
// process of the pool like any other: it ends with the node's lease, and is found by a later program.
// https://docs.nvidia.com/deploy/mps/latest/appendix-environment-variables.html
type sharing struct {
	node *Node

	mu    sync.Mutex
	stop  context.CancelFunc // nil before it has started
	ended chan struct{}      // closed when the daemon has ended
}

const (
	// sharingTask begins the name of the daemon's process, which the generation ends.
	sharingTask = "mps-g"
	// The daemon gets sharingGrace to end its servers, which it asks to end within three seconds.
	sharingGrace = 10 * time.Second
	// findSharing fails on a node without MPS.
	findSharing = "command -v nvidia-cuda-mps-control"
	// longestPipes is how long the path of a folder with sockets may be: a socket's path has 107 bytes at most.
	longestPipes = 107 - len("/control_privileged")
)

// runSharing runs the daemon, and ends it with its servers on TERM, which the daemon itself is not to get. It controls all
// devices, by their numbers on the node: those of CUDA_VISIBLE_DEVICES would be numbered anew.
const runSharing = `umask 077
mkdir -p "$CUDA_MPS_PIPE_DIRECTORY" "$CUDA_MPS_LOG_DIRECTORY" || exit
unset CUDA_VISIBLE_DEVICES
export CUDA_DEVICE_ORDER=PCI_BUS_ID
trap 'echo quit -t 3 | nvidia-cuda-mps-control' TERM
(trap "" TERM; exec nvidia-cuda-mps-control -f) &
wait $!
wait $!`

// awaitSharing waits until the daemon answers, which the arguments before it say how to reach.
const awaitSharing = `sh -c 'i=0
until echo get_server_list | nvidia-cuda-mps-control >/dev/null 2>&1; do
	i=$((i+1)); [ "$i" -lt 150 ] || exit 1
	sleep 0.2 2>/dev/null || sleep 1
done'`

// wanted reports whether the node's devices are shared.
func (s *sharing) wanted() bool { return s.node.settings.GPUSharing > 1 }

// env returns the variables by which a program uses the daemon.
func (s *sharing) env() map[string]string {
	pipes := s.node.Facts().Root + "/mps"
	return map[string]string{"CUDA_MPS_PIPE_DIRECTORY": pipes, "CUDA_MPS_LOG_DIRECTORY": pipes + "/log"}
}

// check returns why the node's devices cannot be shared, or "". The error is one of asking. If tasks are to run in a
// container, only that has to have MPS: see checkContainer.
func (s *sharing) check(ctx context.Context) (lack string, err error) {
	d := s.node.Devices()
	switch {
	case len(d.ids) == 0:
		return "it has no accelerator that Spec.GPUSharing could share", nil
	case d.variable != cudaVisible:
		return "its accelerators are not NVIDIA's, whose MPS shares devices for Spec.GPUSharing", nil
	case slices.ContainsFunc(d.ids, isPart):
		return "its GPUs are divided (MIG), and Spec.GPUSharing is for whole ones: each part is a device of its own without it", nil
	case len(s.env()["CUDA_MPS_PIPE_DIRECTORY"]) > longestPipes:
		return fmt.Sprintf("the pool's folder %s has too long a path for the sockets of MPS, which Spec.GPUSharing needs", s.node.Facts().Root), nil
	}
	if s.node.container.wanted() {
		return "", nil
	}
	_, _, err = s.node.queries.answer(ctx, s.node.Client(), findSharing)
	if _, answered := errors.AsType[*ssh.ExitError](err); answered {
		return "it has no nvidia-cuda-mps-control, which Spec.GPUSharing needs", nil
	}
	return "", err
}

// checkContainer compares the container that tasks run in, if they do, with what sharing needs.
func (s *sharing) checkContainer() error {
	n := s.node
	if !s.wanted() || !n.container.runs() {
		return nil
	}
	lack, err := s.check(n.ctx) // the path of its folder is longer
	if lack == "" && err == nil {
		if _, err = repeat(n.ctx, n.Client(), n.Commands(), findSharing, ""); err == nil {
			return nil
		}
		if _, answered := errors.AsType[*ssh.ExitError](err); answered {
			lack, err = "the container of Image.Docker has no nvidia-cuda-mps-control, which Spec.GPUSharing needs", nil
		}
	}
	if err != nil {
		return err
	}
	return &driver.Error{Provider: n.Provider(), Op: "check " + n.title(), Kind: driver.ErrNoOffers, Err: errors.New(lack)}
}

// base returns what tasks start from on a node whose devices are shared.
func (s *sharing) base(b bootstrap.Base) bootstrap.Base {
	env := s.env()
	for name, value := range b.Env {
		if _, ours := env[name]; !ours {
			env[name] = value
		}
	}
	b.Env = env
	return b
}

// split takes daemons out of the tasks that an earlier program has left running. It returns the one that runs still, if
// one does and devices are shared.
func (s *sharing) split(found []supervisor.Found) (others []supervisor.Found, running string) {
	for _, f := range found {
		switch {
		case !strings.HasPrefix(f.ID, sharingTask):
			others = append(others, f)
		case s.wanted() && !f.Over && running == "":
			running = f.ID
		default:
			s.node.Supervisor().End(f.ID)
		}
	}
	return others, running
}

// start starts the daemon, or follows the one that runs, and returns once it answers. The node is given up if the daemon
// ends before the node does: tasks would share devices no more, without an error.
func (s *sharing) start(running string) error {
	if !s.wanted() {
		return nil
	}
	n := s.node
	ctx, cancel := context.WithCancel(n.ctx)
	s.mu.Lock()
	s.stop, s.ended = cancel, make(chan struct{})
	ended := s.ended
	s.mu.Unlock()
	var tail output.Tail
	var exit supervisor.Exit
	var runErr error
	n.settings.Go(func() {
		defer close(ended)
		sinks := supervisor.Sinks{Stdout: io.Discard, Stderr: &tail}
		spec := supervisor.Spec{ID: cmp.Or(running, fmt.Sprint(sharingTask, n.settings.Generation)), Script: runSharing, Env: s.env(), Grace: sharingGrace}
		if running != "" {
			exit, runErr = n.Supervisor().Resume(ctx, supervisor.Spec{ID: running, Grace: sharingGrace}, time.Time{}, sinks)
		} else {
			exit, runErr = n.Supervisor().Run(ctx, spec, sinks)
		}
	})
	why := func() error {
		<-ended
		if runErr != nil {
			return runErr
		}
		return errors.New(strings.TrimSpace(fmt.Sprintf("nvidia-cuda-mps-control ended with exit code %d: %s", exit.Code, n.settings.Secrets.Text(tail.String()))))
	}
	answered := make(chan error, 1)
	waiting, endWait := context.WithTimeoutCause(ctx, verifyTimeout, fmt.Errorf("nvidia-cuda-mps-control does not answer within %v", verifyTimeout))
	defer endWait()
	n.settings.Go(func() { answered <- s.await(waiting) })
	var err error
	select {
	case err = <-answered:
	case <-ended:
		err = why()
	}
	switch {
	case n.ctx.Err() != nil:
		return context.Cause(n.ctx)
	case err != nil:
		cancel()
		return &driver.Error{Provider: n.Provider(), Op: "share the accelerators of " + n.title(), Kind: driver.ErrNoOffers, Err: err}
	}
	n.settings.Go(func() {
		if err := why(); ctx.Err() == nil {
			n.Supervisor().Fail(fmt.Errorf("tasks can no longer share its accelerators: %w", err))
		}
	})
	return nil
}

// await waits until the daemon answers.
func (s *sharing) await(ctx context.Context) error {
	text := "env"
	for _, name := range slices.Sorted(maps.Keys(s.env())) {
		value, err := supervisor.Quote(s.env()[name])
		if err != nil {
			return err
		}
		text += " " + name + "=" + value
	}
	_, err := repeat(ctx, s.node.Client(), s.node.Commands(), text+" "+awaitSharing, "")
	if _, answered := errors.AsType[*ssh.ExitError](err); answered {
		return errors.New("nvidia-cuda-mps-control was started, and does not answer")
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// end ends the daemon, as far as ctx allows, on a machine that goes on without the pool.
func (s *sharing) end(ctx context.Context) {
	s.mu.Lock()
	stop, ended := s.stop, s.ended
	s.mu.Unlock()
	if stop == nil {
		return
	}
	stop()
	select {
	case <-ended:
	case <-ctx.Done():
	}
}

// isPart reports whether a device is a part of a divided GPU.
func isPart(id string) bool { return strings.HasPrefix(id, "MIG-") }
