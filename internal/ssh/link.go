package ssh

import (
	"errors"
	"fmt"
	"sync"
	"time"

	xssh "golang.org/x/crypto/ssh"
)

// A link is one live connection to the server. It owns its goroutines: all of
// them end with it.
type link struct {
	conn      xssh.Conn
	transport *transport

	mu   sync.Mutex
	wg   sync.WaitGroup
	gone bool // somebody waits for wg: nothing may be added

	cause sync.Once
	why   error         // set by end, if that comes before the connection's own end
	dead  chan struct{} // closed when the connection has ended
	err   error         // why, once dead is closed

	// What runs over it, guarded by Client.mu.
	extra     bool      // opened because another one's sessions were used up
	open      int       // sessions that were asked for and have not ended
	running   int       // those of them that the server has granted
	long      int       // those of them that Open and SFTP have asked for
	abandoned int       // sessions closed before their command ended: the server may still count them
	fullUntil time.Time // no sessions before then
	idle      bool      // nothing ran at the last tick
}

var (
	errSilent = errors.New("the server does not answer")
	errIdle   = errors.New("no longer needed")
)

// newLink takes over a connection whose handshake is done.
func newLink(t *transport, conn xssh.Conn, chans <-chan xssh.NewChannel, reqs <-chan *xssh.Request) *link {
	l := &link{conn: conn, transport: t, dead: make(chan struct{})}
	t.atEnd(l.seal)
	l.wg.Go(func() {
		refuse(chans, reqs)
		err := conn.Wait()
		l.cause.Do(func() { l.why = err })
		l.err = l.why
		close(l.dead)
	})
	return l
}

// refuse answers what the server asks for, such as its own keepalive, until the
// connection ends.
func refuse(chans <-chan xssh.NewChannel, reqs <-chan *xssh.Request) {
	for chans != nil || reqs != nil {
		select {
		case ch, ok := <-chans:
			if !ok {
				chans = nil
				continue
			}
			ch.Reject(xssh.Prohibited, "this client takes no channels")
		case r, ok := <-reqs:
			if !ok {
				reqs = nil
				continue
			}
			if r.WantReply {
				r.Reply(false, nil)
			}
		}
	}
}

// seal makes x/crypto's ssh refuse to write. When reading fails, it first fails
// all channels that it knows and only then turns writers away; and the write that
// finds the connection closed counts as a success there. A channel opened in
// between would wait forever for its answer. So seal makes that write, while
// reading has not failed yet. During a key exchange the write may have to wait
// for just that failure.
func (l *link) seal() {
	written := make(chan struct{})
	if !l.spawn(func() {
		defer close(written)
		l.conn.SendRequest("end@gputrain", false, nil)
	}) {
		return
	}
	timer := time.NewTimer(sealing)
	defer timer.Stop()
	select {
	case <-written:
	case <-timer.C:
	}
}

// sealing bounds the wait for a write to a connection that is closed.
const sealing = 100 * time.Millisecond

// end closes the connection. Only the first cause counts.
func (l *link) end(cause error) {
	l.cause.Do(func() { l.why = cause })
	l.transport.Close()
}

// spawn runs f in a goroutine that the link owns: f must end when the
// connection does. It reports false, and runs nothing, where that is over.
func (l *link) spawn(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone {
		return false
	}
	l.wg.Go(f)
	return true
}

// wait waits for the goroutines of a link that has ended.
func (l *link) wait() {
	l.mu.Lock()
	l.gone = true
	l.mu.Unlock()
	l.wg.Wait()
}

// isDead reports whether the connection has ended.
func (l *link) isDead() bool {
	return isClosed(l.dead)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// keepAlive asks for a sign of life whenever nothing has arrived for an
// interval, and ends the link when misses intervals more bring none. It ends
// the link too when unneeded, asked at every tick, says so.
func (l *link) keepAlive(interval time.Duration, misses int, unneeded func() bool) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	seen, missed, asked := l.transport.reads.Load(), 0, false
	var answered chan struct{}
	defer func() {
		if answered != nil {
			<-answered
		}
	}()
	for {
		select {
		case <-l.dead:
			return
		case <-ticker.C:
		}
		if unneeded() {
			l.end(errIdle)
			return
		}
		if reads := l.transport.reads.Load(); reads != seen {
			seen, missed, asked = reads, 0, false
			continue
		}
		if asked {
			if missed++; missed >= misses {
				l.end(fmt.Errorf("%w: nothing for %v", errSilent, time.Duration(misses+1)*interval))
				return
			}
			continue
		}
		asked = true
		if answered != nil && !isClosed(answered) {
			continue // the last one is still on its way
		}
		answered = make(chan struct{})
		go func() { // ends with the connection: keepAlive waits for it
			defer close(answered)
			l.conn.SendRequest("keepalive@openssh.com", true, nil)
		}()
	}
}
