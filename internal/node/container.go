package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/gputrain/gputrain/internal/bootstrap"
	"github.com/gputrain/gputrain/internal/docker"
	"github.com/gputrain/gputrain/internal/supervisor"
)

// leaveTimeout bounds the orderly end of what runs in a container. After that, its machine ends the container.
const leaveTimeout = 15 * time.Second

// errNoContainer means that the container of a node that was ready is gone.
var errNoContainer = errors.New("the container of Image.Docker, in which its tasks ran, is gone")

// A container has the tasks of a node whose settings name an image, unless the machine is one of that image itself.
type container struct {
	node  *Node
	image atomic.Pointer[docker.Image] // nil until it runs
}

// wanted reports whether the node's tasks are to run in a container on the machine.
func (c *container) wanted() bool {
	return c.node.settings.Docker != nil && c.node.Capabilities().Images == nil
}

// runs reports whether they do.
func (c *container) runs() bool { return c.node.Supervisor() != c.node.onMachine() }

// machine returns the machine as the container's package uses it.
func (c *container) machine(output io.Writer) docker.Machine {
	n := c.node
	return docker.Machine{
		Node: n.onMachine(), Name: n.Name(), KeepCache: n.Capabilities().KeepCache, NeedsGPUs: !queryOf(n).Accelerator.IsZero(), Output: output,
	}
}

// begin makes the container, if there is to be one and an earlier program has not made it, and has all that follows run
// there. It is a phase.
func (c *container) begin() error {
	if !c.wanted() || c.runs() {
		return nil
	}
	n := c.node
	phases := n.settings.Output.Phases(fmt.Sprintf("node %d", n.owner.Rank()), n.owner.Rank())
	defer phases.Flush()
	phase := bootstrap.Phase{Name: docker.Phase, Key: docker.Phase + " " + n.settings.Docker.Reference.String()}
	n.owner.Phase(phase, bootstrap.Started, 0)
	start := time.Now()
	cached, failed := c.start(progressing(n, docker.Phase, phases.Writer(docker.Phase)))
	elapsed := time.Since(start)
	switch {
	case failed != nil:
		n.owner.Phase(phase, bootstrap.Failed, elapsed)
		failed.Elapsed = elapsed
		return failed
	case cached:
		n.owner.Phase(phase, bootstrap.Cached, elapsed)
	default:
		n.owner.Phase(phase, bootstrap.Done, elapsed)
	}
	return nil
}

// start makes the container. It reports whether the machine had the image.
func (c *container) start(output io.Writer) (cached bool, _ *bootstrap.Error) {
	n := c.node
	made, cached, failed := n.settings.Docker.Start(n.ctx, c.machine(output))
	if failed != nil {
		return false, failed
	}
	client := made.Client(n.Client())
	s, err := supervisor.Start(n.ctx, client, made.Supervision(n.supervision()))
	if err != nil {
		return false, &bootstrap.Error{Phase: docker.Phase, ExitCode: -1, Err: fmt.Errorf("the container of %s: %w", n.settings.Docker.Reference, err)}
	}
	c.use(made, s, client)
	return cached, nil
}

// find attaches to the container that an earlier program has made, if it has, and ends what that program has left
// running beside it.
func (c *container) find(ctx context.Context) error {
	n := c.node
	for _, step := range n.found {
		n.onMachine().End(step.ID)
	}
	n.found = nil
	made, err := n.settings.Docker.Find(ctx, c.machine(nil))
	if err != nil || made == nil {
		return err
	}
	client := made.Client(n.Client())
	s, found, err := supervisor.Attach(ctx, client, made.Supervision(n.supervision()))
	switch {
	case errors.Is(err, supervisor.ErrLapsed), errors.Is(err, supervisor.ErrRestarted):
		return nil // nothing runs in it
	case err != nil:
		return err
	}
	n.found = found
	c.use(made, s, client)
	return nil
}

// use has all that follows run in the container.
func (c *container) use(made *docker.Container, s *supervisor.Node, client *docker.Client) {
	c.image.Store(&made.Image)
	c.node.enter(s, client)
}

// leave ends what runs in the container, in order. The container's end does not depend on it.
func (c *container) leave(ctx context.Context) error {
	if !c.runs() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	if err := c.node.Supervisor().Close(ctx, true); errors.Is(err, supervisor.ErrFenced) {
		return err
	}
	return nil
}

// ContainerImage returns the image of the node's container, or "" if tasks run on the machine itself. PinImage takes it.
func (c *container) ContainerImage() string {
	if i := c.image.Load(); i != nil {
		return i.String()
	}
	return ""
}

// PinImage makes the pool's containers run the image that an earlier program's had. It ignores text that is none.
func (c *container) PinImage(text string) {
	if i, err := docker.ParseImage(text); err == nil && c.node.settings.Docker != nil {
		c.node.settings.Docker.Pin(i)
	}
}

// ShellCommand returns the command that runs another where a node's tasks run, in a session of its machine that has a
// terminal or pipes.
func ShellCommand(n *Node, command string, terminal bool) (string, error) {
	if c, ok := n.Commands().(*docker.Client); ok {
		return c.ShellCommand(command, terminal)
	}
	return command, nil
}
