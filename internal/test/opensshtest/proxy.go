package opensshtest

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// A Link is the network between a client and a server: a TCP proxy on the loopback whose faults a test controls. Its
// methods can be called at any time.
type Link struct {
	// Addr is what the client dials.
	Addr string

	target string
	wg     sync.WaitGroup

	mu      sync.Mutex
	conns   map[net.Conn]bool
	closed  bool
	refuse  bool
	dials   int
	trips   int // the highest number of round trips of any connection
	delay   time.Duration
	budget  int64         // bytes until the next cut; negative means that no cut is due
	next    []int64       // the budgets of the cuts after that
	cutting bool          // the budget is used up, and the cut follows: nothing passes
	flowing chan struct{} // closed while bytes flow
	wake    chan struct{} // closed by a cut: wakes goroutines in a delay or a black hole
}

// Proxy forwards connections to addr until the test ends.
func Proxy(t testing.TB, addr string) *Link {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	flowing := make(chan struct{})
	close(flowing)
	p := &Link{
		Addr: l.Addr().String(), target: addr, budget: -1,
		conns: map[net.Conn]bool{}, flowing: flowing, wake: make(chan struct{}),
	}
	p.wg.Go(func() { p.accept(l) })
	t.Cleanup(func() {
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		l.Close()
		p.Cut()
		p.wg.Wait()
	})
	return p
}

// Cut resets every connection. New ones are accepted.
func (p *Link) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut()
}

func (p *Link) cut() {
	p.budget, p.cutting = -1, false
	if len(p.next) > 0 {
		p.budget, p.next = p.next[0], p.next[1:]
	}
	for c := range p.conns {
		reset(c)
	}
	clear(p.conns)
	close(p.wake)
	p.wake = make(chan struct{})
}

// CutAfter resets every connection once n more bytes have passed, counted over all connections and both directions.
// After that it does so again for each of then in turn.
func (p *Link) CutAfter(n int64, then ...int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.budget, p.next = n, then
}

// Blackhole silently holds back all data, while connections stay open. Once it is off all data arrive, as if TCP had
// retransmitted them.
func (p *Link) Blackhole(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.flowing:
		if on {
			p.flowing = make(chan struct{})
		}
	default:
		if !on {
			close(p.flowing)
		}
	}
}

// Delay delays every byte by d in each direction: a round trip takes 2d longer. It does not limit the bandwidth.
func (p *Link) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Refuse resets every new connection at once, like a machine whose server does not run yet.
func (p *Link) Refuse(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = on
}

// Dials returns how many connections to the link were made so far.
func (p *Link) Dials() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dials
}

// Trips returns the highest number of round trips of a connection so far, without TCP's handshake: how often the client
// received data that the server sent after it received data that the client sent after the previous trip. The pieces of
// one message must follow each other within much less than Delay, or the later ones may count as an answer: on a very
// busy machine Trips may return too much, and never too little.
func (p *Link) Trips() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.trips
}

// A conversation counts the round trips of one connection.
type conversation struct {
	atServer, atClient int // the highest trip whose data each side has received
}

// said returns the trip to which data that one side sends now belong.
func (p *Link) said(talk *conversation, byClient bool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if byClient {
		return talk.atClient + 1
	}
	return talk.atServer
}

// heard records that data of a trip arrived.
func (p *Link) heard(talk *conversation, trip int, byServer bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if byServer {
		talk.atServer = max(talk.atServer, trip)
		return
	}
	talk.atClient = max(talk.atClient, trip)
	p.trips = max(p.trips, talk.atClient)
}

// Open returns the number of open connections.
func (p *Link) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns) / 2
}

func (p *Link) accept(l net.Listener) {
	for {
		client, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		p.mu.Lock()
		p.dials++
		refuse := p.refuse || p.closed
		p.mu.Unlock()
		if refuse {
			reset(client)
			continue
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			reset(client)
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = true, true
		wake, closed := p.wake, p.closed
		p.mu.Unlock()
		if closed {
			p.Cut()
			continue
		}
		p.wg.Go(func() { p.join(client, server, wake) })
	}
}

// join forwards both directions until both have ended.
func (p *Link) join(client, server net.Conn, wake chan struct{}) {
	var wg sync.WaitGroup
	talk := &conversation{}
	wg.Go(func() { p.pump(server, client, wake, talk, true) })
	wg.Go(func() { p.pump(client, server, wake, talk, false) })
	wg.Wait()
	client.Close()
	server.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, client)
	delete(p.conns, server)
}

// A chunk is the data of one read, and the time when they may arrive.
type chunk struct {
	data []byte
	due  time.Time
	trip int
}

// pump forwards one direction.
func (p *Link) pump(dst, src net.Conn, wake chan struct{}, talk *conversation, byClient bool) {
	queue := make(chan chunk, 256)
	dead := make(chan struct{}) // closed when the writer stops
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(dead)
		if p.deliver(dst, queue, wake, func(trip int) { p.heard(talk, trip, byClient) }) != nil {
			reset(src)
			reset(dst)
		}
	})
	for {
		buf := make([]byte, 32<<10)
		n, err := src.Read(buf)
		if n > 0 {
			p.mu.Lock()
			due := time.Now().Add(p.delay)
			p.mu.Unlock()
			select {
			case queue <- chunk{buf[:n], due, p.said(talk, byClient)}:
			case <-dead:
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				reset(dst)
			}
			break
		}
	}
	close(queue)
	wg.Wait()
}

// deliver writes each chunk when it is due. It returns an error if the connection was cut.
func (p *Link) deliver(dst net.Conn, queue chan chunk, wake chan struct{}, arriving func(trip int)) error {
	for c := range queue {
		if wait := time.Until(c.due); wait > 0 {
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-wake:
				timer.Stop()
				return errCut
			}
		}
		if !p.flows(wake) {
			return errCut
		}
		data, last := p.spend(c.data)
		arriving(c.trip)
		_, err := dst.Write(data)
		if last {
			p.Cut()
			return errCut
		}
		if err != nil {
			return err
		}
	}
	if !p.flows(wake) { // a black hole also holds back the end of a connection
		return errCut
	}
	return dst.(*net.TCPConn).CloseWrite()
}

// flows waits while the link is a black hole. It reports whether data may pass, which they may not
// after a cut.
func (p *Link) flows(wake chan struct{}) bool {
	for {
		p.mu.Lock()
		flowing := p.flowing
		p.mu.Unlock()
		select {
		case <-wake:
			return false
		case <-flowing:
			p.mu.Lock()
			same := p.flowing == flowing
			p.mu.Unlock()
			if same {
				return true
			}
		}
	}
}

// spend takes data from CutAfter's budget. It returns what may still pass, and whether the budget is used up.
func (p *Link) spend(data []byte) ([]byte, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.cutting:
		return nil, false
	case p.budget < 0:
		return data, false
	}
	n := min(p.budget, int64(len(data)))
	if p.budget -= n; p.budget > 0 {
		return data, false
	}
	p.budget, p.cutting = -1, true // each budget cuts once
	return data[:n], true
}

var errCut = errors.New("the link was cut")

// reset ends a connection by RST rather than FIN.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	c.Close()
}
