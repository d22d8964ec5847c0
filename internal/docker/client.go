package docker

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/pkg/sftp"
)

// A Client runs commands in a container, over the connection to its machine.
type Client struct {
	machine   *ssh.Client
	container *Container
}

// Client returns what runs commands in the container.
func (c *Container) Client(machine *ssh.Client) *Client { return &Client{machine, c} }

// Open is [ssh.Client.Open] in the container.
func (c *Client) Open(ctx context.Context, command string) (*ssh.Session, error) {
	command, err := c.container.command(command)
	if err != nil {
		return nil, err
	}
	return c.machine.Open(ctx, command)
}

// Exec is [ssh.Client.Exec] in the container.
func (c *Client) Exec(ctx context.Context, command string, stdin io.Reader, stdout, stderr io.Writer) error {
	command, err := c.container.command(command)
	if err != nil {
		return err
	}
	return c.machine.Exec(ctx, command, stdin, stdout, stderr)
}

// ExecMoving is [ssh.Client.ExecMoving] in the container.
func (c *Client) ExecMoving(ctx context.Context, command string, stdin io.Reader, stdout, stderr io.Writer) error {
	command, err := c.container.command(command)
	if err != nil {
		return err
	}
	return c.machine.ExecMoving(ctx, command, stdin, stdout, stderr)
}

// ShellCommand returns the command that runs another in the container, for a session of the machine that has a terminal or
// pipes. The terminal's kind and size are those of the session.
func (c *Client) ShellCommand(command string, terminal bool) (string, error) {
	if !terminal {
		return c.container.command(command)
	}
	return c.container.exec(`-it -e "TERM=$TERM"`, command)
}

// Down is the machine's.
func (c *Client) Down() (since time.Time, down bool) { return c.machine.Down() }

// Err is the machine's.
func (c *Client) Err() error { return c.machine.Err() }

// SFTP fails: the machine's SFTP server does not see the container's files.
func (c *Client) SFTP(context.Context, func(n int) error) (*sftp.Client, error) {
	return nil, errors.New("the image of Image.Docker has no tar, which copying folders and several files needs: use an image with tar")
}
