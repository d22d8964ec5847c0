package hostile

import (
	"io"

	xssh "golang.org/x/crypto/ssh"
)

// A Liar decides what is said in each session, and beside the sessions. Its methods
// are called at the same time.
type Liar interface {
	// Session returns what to say in a session, or nil for the truth.
	Session(kind Kind, command string) *Lie
	// Connect is called for every connection, once the client is logged in. It may
	// send what no client asked for, and returns when conn ends at the latest.
	Connect(conn *xssh.ServerConn)
	// Banner is shown to a client before it logs in.
	Banner() string
}

// A Lie replaces what a node says in one session. A nil field is the truth.
type Lie struct {
	// Refuse rejects the command, with this text.
	Refuse string
	// Reply answers the client's requests.
	Reply func(request string) Answer
	// Stdout and Stderr write to the client in place of the node.
	Stdout, Stderr Tamper
	// Exit tells the client how the command ended, after its output.
	Exit func(s *Session, kind string, payload []byte)
	// Beside runs as long as the session does.
	Beside func(s *Session)
}

// A Tamper writes to the client what the node says in src, or something else. What
// it leaves in src is dropped. It returns when the session is over at the latest.
type Tamper func(s *Session, dst io.Writer, src io.Reader)

// An Answer is one to a request of the client.
type Answer int

const (
	Truth  Answer = iota
	Yes           // accepted, without being done
	No            // refused, without being done
	Never         // none
	Forged        // done, and the opposite is answered
)

// Honest is a Liar that does not lie.
type Honest struct{}

func (Honest) Session(Kind, string) *Lie { return nil }
func (Honest) Connect(*xssh.ServerConn)  {}
func (Honest) Banner() string            { return "" }

// InSessions is a Liar in sessions of a kind, and honest beside them.
type InSessions struct {
	Honest
	Of  func(Kind) bool
	Lie func() *Lie
}

// In returns a Liar that says the same lie in each session of a kind.
func In(kind Kind, lie Lie) Liar {
	return InSessions{Of: func(k Kind) bool { return k == kind }, Lie: func() *Lie { return &lie }}
}

func (l InSessions) Session(kind Kind, _ string) *Lie {
	if l.Of(kind) {
		return l.Lie()
	}
	return nil
}
