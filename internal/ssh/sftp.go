package ssh

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/loginshell"
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
		client, err := sftp.NewClientPipe(talk.reader(&answers{&sftpStart{r: s}, received}), talk.writer(&pipe{s: s}), options...)
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

// An sftpStart is what an SFTP server sends, without what the user's login shell prints before that runs the server: up to the
// packet that answers the first request.
type sftpStart struct {
	r      io.Reader
	window []byte // until the packet has come, the end of what was read; then what is not yet taken
	read   int
	begun  bool
}

// version is what follows the length of that packet, which begins with two zeros: its type, and a small number.
var version = []byte{2, 0, 0, 0}

func (s *sftpStart) Read(p []byte) (int, error) {
	for !s.begun {
		var chunk [4 << 10]byte
		n, err := s.r.Read(chunk[:])
		s.window = append(s.window, chunk[:n]...)
		if at := bytes.Index(s.window, version); at >= 4 && s.window[at-4] == 0 && s.window[at-3] == 0 {
			s.begun, s.window = true, s.window[at-4:]
			break
		}
		if err != nil {
			return 0, err
		}
		if drop := len(s.window) - 4 - len(version); drop > 0 {
			s.window = append(s.window[:0], s.window[drop:]...)
			if s.read += drop; s.read > mostGreeting {
				return 0, loginshell.ErrNoise
			}
		}
	}
	if len(s.window) == 0 {
		return s.r.Read(p)
	}
	n := copy(p, s.window)
	s.window = s.window[n:]
	return n, nil
}

// mostGreeting bounds what a login shell may print before it runs an SFTP server.
const mostGreeting = 1 << 20

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
