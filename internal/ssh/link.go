package ssh

import (
	"errors"
	"fmt"
	"sync"
	"time"

	xssh "golang.org/x/crypto/ssh"
)

// A link is one live connection to the server. It owns its goroutines, which all end with it.
type link struct {
	conn      xssh.Conn
	transport *transport

	mu   sync.Mutex
	wg   sync.WaitGroup
	gone bool // a caller waits for wg: nothing may be added

	question *question // that is under way, or nil

	cause sync.Once
	why   error         // set by end, unless the connection ended before
	dead  chan struct{} // closed when the connection has ended
	err   error         // the reason, once dead is closed

	// What runs over the link, guarded by Client.mu.
	extra     bool      // opened because the sessions of another link were used up
	open      int       // sessions that were asked for and have not ended
	running   int       // those of open that the server has granted
	long      int       // those of open that Open and SFTP have asked for
	abandoned int       // sessions closed before their command ended: the server may still count them
	ended     time.Time // when a session that was granted ended last
	fullUntil time.Time // no new sessions before then
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

// refuse answers the server's requests, such as its keepalives, until the connection ends.
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

// seal makes x/crypto's ssh refuse to write. When reading fails, that package first fails all channels that it knows
// and only then refuses writers; and it counts the write that finds the connection closed as a success. A channel
// opened in between would wait forever for its answer. So seal makes that write while reading has not failed yet.
// During a key exchange the write may have to wait for that very failure.
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

// end closes the connection. The first cause counts.
func (l *link) end(cause error) {
	l.cause.Do(func() { l.why = cause })
	l.transport.Close()
}

// spawn runs f in a goroutine that the link owns: f must end when the connection does. If the link is over, spawn runs
// nothing and reports false.
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

// keepAlive sends a keepalive after an interval without data, and ends the link after misses further intervals without
// data. It also ends the link once unneeded, which it calls at every tick, reports true.
func (l *link) keepAlive(interval time.Duration, misses int, unneeded func() bool) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	seen, missed, asked := l.transport.reads.Load(), 0, false
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
		l.ask()
	}
}

// A question is a keepalive. err is set once done is closed: nil if the server has answered it.
type question struct {
	done chan struct{}
	err  error
}

// ask asks the server for an answer, unless a question is under way: x/crypto's ssh sends one at a time. It returns nil if the link is
// over.
func (l *link) ask() *question {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone || l.question != nil {
		return l.question
	}
	q := &question{done: make(chan struct{})}
	l.question = q
	l.wg.Go(func() { // ends with the connection, or before
		_, _, q.err = l.conn.SendRequest("keepalive@openssh.com", true, nil)
		l.mu.Lock()
		l.question = nil
		l.mu.Unlock()
		close(q.done)
	})
	return q
}
