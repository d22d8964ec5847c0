package hostile

import (
	"bytes"
	"io"
	"sync"
	"sync/atomic"

	"github.com/gputrain/gputrain/internal/loginshell"
	xssh "golang.org/x/crypto/ssh"
)

// A Session is one channel between the client and the real node.
type Session struct {
	Kind    Kind
	Command string

	node   *Node
	client xssh.Channel
	behind xssh.Channel
	mark   string        // that the login shell prints before the command runs, which is no lie; or ""
	done   chan struct{} // closed when the client has closed the session or disconnected

	lie   *Lie
	begun bool
	ends  <-chan *xssh.Request // the real node's messages about the command's end
	wg    sync.WaitGroup
}

// Done is closed when the client has closed the session or disconnected.
func (s *Session) Done() <-chan struct{} { return s.done }

// relay relays one session.
func (n *Node) relay(c xssh.NewChannel, behind *xssh.Client) {
	up, ends, err := behind.OpenChannel("session", nil)
	if err != nil {
		c.Reject(xssh.ConnectionFailed, err.Error())
		return
	}
	defer up.Close()
	ch, requests, err := c.Accept()
	if err != nil {
		go xssh.DiscardRequests(ends)
		return
	}
	s := &Session{node: n, client: ch, behind: up, done: make(chan struct{}), ends: ends}
	for r := range requests {
		s.request(r)
	}
	close(s.done)
	up.Close()
	if !s.begun {
		s.wg.Go(func() { xssh.DiscardRequests(ends) })
	}
	s.wg.Wait()
	ch.Close()
}

// request relays a request of the client and replies to it.
func (s *Session) request(r *xssh.Request) {
	begins := r.Type == "exec" || r.Type == "subsystem" || r.Type == "shell"
	if begins && !s.begun {
		s.choose(r)
	}
	answer := Truth
	if s.lie != nil && s.lie.Reply != nil {
		answer = s.lie.Reply(r.Type)
	}
	ok := answer == Yes
	if answer == Truth || answer == Forged {
		sent, err := s.behind.SendRequest(r.Type, r.WantReply, r.Payload)
		ok = err == nil && sent != (answer == Forged)
	}
	if r.WantReply && answer != Never {
		r.Reply(ok, nil)
	}
	if begins && !s.begun {
		s.begin()
	}
}

// choose asks the liar for a lie.
func (s *Session) choose(r *xssh.Request) {
	var what struct{ Text string }
	xssh.Unmarshal(r.Payload, &what) // a client that sends an invalid payload gets honest answers
	s.Command = what.Text
	if text, mark, err := loginshell.Parse(what.Text); err == nil {
		s.Command, s.mark = text, mark
	}
	s.Kind = kindOf(s.Command)
	if r.Type == "subsystem" {
		s.Kind = SFTP
	}
	s.node.mu.Lock()
	s.node.kinds[s.Kind]++
	s.node.mu.Unlock()
	s.lie = s.node.liar.Load().(liar).Session(s.Kind, s.Command)
	if s.lie != nil && s.lie.Refuse != "" {
		text := s.lie.Refuse
		s.lie = &Lie{
			Stdout: func(*Session, io.Writer, io.Reader) {},
			Stderr: func(_ *Session, dst io.Writer, _ io.Reader) { io.WriteString(dst, text) },
			Exit:   func(s *Session, _ string, _ []byte) { s.Status(1) },
		}
	}
}

// begin relays the command's output and its end.
func (s *Session) begin() {
	s.begun = true
	lie := s.lie
	if lie == nil {
		lie = &Lie{}
	}
	var said, outputs sync.WaitGroup
	said.Add(2)
	stdout, stderr := io.Reader(s.behind), io.Reader(s.behind.Stderr())
	if s.mark != "" {
		stdout, stderr = loginshell.Stdout(stdout, s.mark), loginshell.Stderr(stderr, s.mark)
	}
	outputs.Go(func() { s.output(lie.Stdout, s.client, stdout, said.Done) })
	outputs.Go(func() { s.output(lie.Stderr, s.client.Stderr(), stderr, said.Done) })
	outputs.Go(func() {
		said.Wait()
		s.client.CloseWrite() // EOF of both outputs
	})
	s.wg.Go(s.input)
	if lie.Beside != nil {
		s.wg.Go(func() { lie.Beside(s) })
	}
	s.wg.Go(func() {
		var told []*xssh.Request
		for r := range s.ends { // until the real node closes the session
			told = append(told, r)
		}
		outputs.Wait()
		for _, r := range told {
			if lie.Exit != nil {
				lie.Exit(s, r.Type, r.Payload)
			} else {
				s.client.SendRequest(r.Type, false, r.Payload)
			}
		}
		s.client.Close()
	})
}

// output relays one of the outputs. It discards what the tamper leaves unread.
func (s *Session) output(tamper Tamper, dst io.Writer, src io.Reader, said func()) {
	if tamper == nil {
		tamper = Pass
	}
	if s.mark != "" {
		io.WriteString(dst, loginshell.Line(s.mark))
	}
	tamper(s, &counted{dst, &s.node.said}, src)
	said()
	io.Copy(io.Discard, src)
}

// input relays the client's input, and searches it for secrets.
func (s *Session) input() {
	watch := &watch{secrets: s.node.cfg.Secrets, found: &s.node.leaked}
	io.Copy(io.MultiWriter(watch, s.behind), s.client)
	s.behind.CloseWrite()
	io.Copy(watch, s.client) // even if the node stops reading
}

// Status sends the client an exit status.
func (s *Session) Status(code uint32) {
	s.client.SendRequest("exit-status", false, xssh.Marshal(struct{ Code uint32 }{code}))
}

// Signal reports to the client that a signal ended the command.
func (s *Session) Signal(name, message string) {
	s.client.SendRequest("exit-signal", false, xssh.Marshal(struct {
		Name    string
		Core    bool
		Message string
		Lang    string
	}{Name: name, Message: message}))
}

// Request sends the client an unexpected request.
func (s *Session) Request(name string, wantReply bool, payload []byte) error {
	_, err := s.client.SendRequest(name, wantReply, payload)
	return err
}

// Shut closes the session from the node's side.
func (s *Session) Shut() { s.client.Close() }

// A counted writer counts the bytes that it writes.
type counted struct {
	io.Writer
	n *atomic.Int64
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.n.Add(int64(n))
	return n, err
}

// A watch searches a stream for secrets, including those that are split over several writes.
type watch struct {
	secrets [][]byte
	found   *atomic.Bool
	tail    []byte
}

func (w *watch) Write(p []byte) (int, error) {
	longest := 0
	both := append(w.tail, p...)
	for _, s := range w.secrets {
		if bytes.Contains(both, s) {
			w.found.Store(true)
		}
		longest = max(longest, len(s))
	}
	w.tail = append(w.tail[:0:0], both[max(0, len(both)-longest):]...)
	return len(p), nil
}
