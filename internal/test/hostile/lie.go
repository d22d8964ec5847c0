package hostile

import (
	"io"

	xssh "golang.org/x/crypto/ssh"
)

// A Liar decides how each session and connection lies. Its methods are called concurrently.
type Liar interface {
	// Session returns the lie for a session, or nil for an honest one.
	Session(kind Kind, command string) *Lie
	// Connect is called for every connection once the client has logged in. It may send unexpected messages. It must
	// return when conn ends.
	Connect(conn *xssh.ServerConn)
	// Banner returns the text that a client receives before login.
	Banner() string
}

// A Lie replaces parts of a node's answers in one session. A nil field leaves its part honest.
type Lie struct {
	// Refuse rejects the command, with this text.
	Refuse string
	// Reply chooses the replies to the client's requests.
	Reply func(request string) Answer
	// Stdout and Stderr write to the client instead of the node.
	Stdout, Stderr Tamper
	// Exit reports to the client how the command ended, after the command's output.
	Exit func(s *Session, kind string, payload []byte)
	// Beside runs concurrently with the session.
	Beside func(s *Session)
}

// A Tamper writes the node's output, read from src, or something else to the client. Output that it does not read from
// src is dropped. It must return when the session is over.
type Tamper func(s *Session, dst io.Writer, src io.Reader)

// An Answer is a reply to a request of the client.
type Answer int

const (
	Truth  Answer = iota
	Yes           // accepted, but not performed
	No            // refused, and not performed
	Never         // no reply
	Forged        // performed, with the opposite reply
)

// Honest is a Liar that does not lie.
type Honest struct{}

func (Honest) Session(Kind, string) *Lie { return nil }
func (Honest) Connect(*xssh.ServerConn)  {}
func (Honest) Banner() string            { return "" }

// InSessions lies only in sessions of some kinds.
type InSessions struct {
	Honest
	Of  func(Kind) bool
	Lie func() *Lie
}

// In returns a Liar that lies in the same way in each session of a kind.
func In(kind Kind, lie Lie) Liar {
	return InSessions{Of: func(k Kind) bool { return k == kind }, Lie: func() *Lie { return &lie }}
}

func (l InSessions) Session(kind Kind, _ string) *Lie {
	if l.Of(kind) {
		return l.Lie()
	}
	return nil
}
