package ssh

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/pkg/sftp"
)

// SFTP opens the SFTP subsystem with many and large requests at once, so a write that fails may leave holes before its
// end. The owner closes it. It waits for the connection as Open does. It calls received, unless that is nil, with the
// number of bytes each time some came from the server; an error from received ends the session.
func (c *Client) SFTP(ctx context.Context, received func(n int) error) (*sftp.Client, error) {
	s, err := c.open(ctx, request{name: "subsystem", payload: "sftp", long: true})
	if err != nil {
		return nil, err
	}
	options := []sftp.ClientOption{sftp.UseConcurrentWrites(true), sftp.MaxConcurrentRequestsPerFile(64)}
	if strings.HasPrefix(string(s.link.conn.ServerVersion()), "SSH-2.0-OpenSSH_") {
		options = append(options, sftp.MaxPacketUnchecked(255<<10)) // its limit is 256 KiB with the header
	}
	type result struct {
		client *sftp.Client
		err    error
	}
	answer := make(chan result)
	talk := newSFTPDialogue()
	opened := s.link.spawn(func() {
		client, err := sftp.NewClientPipe(talk.reader(&answers{s, received}), talk.writer(&pipe{s: s}), options...)
		select {
		case answer <- result{client, err}:
		case <-ctx.Done():
			if err == nil {
				client.Close()
			}
		}
	})
	if !opened {
		s.Close()
		return nil, errNotStarted
	}
	select {
	case a := <-answer:
		if a.err != nil {
			s.Close()
			return nil, fmt.Errorf("sftp on %s (does its sshd_config have the subsystem?): %w", c.cfg.where(), a.err)
		}
		return a.client, nil
	case <-ctx.Done():
		s.Close()
		return nil, ctx.Err()
	}
}

// Answers are the packets that an SFTP server sends.
type answers struct {
	io.Reader
	received func(n int) error
}

func (a *answers) Read(p []byte) (int, error) {
	n, err := a.Reader.Read(p)
	if a.received != nil && n > 0 {
		if err := a.received(n); err != nil {
			return 0, err // with no bytes, or io.ReadFull would drop the error
		}
	}
	return n, err
}

// A pipe carries requests to an SFTP server. Its Close asks the server to end, and closes the session if that takes
// long.
type pipe struct {
	s    *Session
	once sync.Once
}

func (p *pipe) Write(b []byte) (int, error) { return p.s.Write(b) }

func (p *pipe) Close() error {
	p.once.Do(func() {
		p.s.CloseWrite()
		timer := time.NewTimer(closing)
		defer timer.Stop()
		select {
		case <-p.s.done:
		case <-timer.C:
		}
		p.s.Close()
	})
	return nil
}
