package simnode

import (
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/sshd"
)

// A place is one pool's part of the node: its folder, watcher and tasks.
type place struct {
	node *Node
	name string

	mu      sync.Mutex
	root    string
	version string // of the protocol, as the first client set it
	owner   int    // the highest generation of clients that has come
	gone    bool
	session *session // that has it now
	env     []string // of all tasks
	files   map[string][]byte
	live    map[string]*task
	ended   map[string]*ended
	lease   lease
}

func newPlace(n *Node, name string) *place {
	return &place{node: n, name: name, files: map[string][]byte{}, live: map[string]*task{}, ended: map[string]*ended{}}
}

// answer sends a line to the session that has the place. p.mu is held.
func (p *place) answer(line string) {
	if p.session != nil {
		p.session.answer(line)
	}
}

// admits records a client's generation, and reports whether no higher one has come before. p.mu is held.
func (p *place) admits(generation int) bool {
	if generation < p.owner {
		return false
	}
	p.owner = generation
	return true
}

// depose ends a session whose place another one has taken. p.mu is held.
func (p *place) depose(s *session) {
	if p.session == s {
		p.session = nil
	}
	if c, ok := s.out.(io.Closer); ok {
		go c.Close() // may wait for the network
	}
}

// leave records that a session has ended.
func (p *place) leave(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.session == s {
		p.session = nil
	}
}

// cut removes the place without a message to its sessions.
func (p *place) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = true
	p.session = nil
	p.lease.stop()
	for _, t := range p.live {
		t.kill()
	}
	clear(p.live)
}

// close is gt_close: it ends the tasks and the watcher, and with remove leaves nothing of the place. It reports whether
// this client was allowed to.
func (n *Node) close(name string, remove bool, generation int) bool {
	p := n.place(name, false)
	if p == nil {
		return true
	}
	p.mu.Lock()
	if !p.admits(generation) {
		p.mu.Unlock()
		return false
	}
	p.gone = true
	p.lease.stop()
	if s := p.session; s != nil {
		p.depose(s)
	}
	p.mu.Unlock()
	p.endAll()
	if remove {
		n.forget(p)
	}
	return true
}

// endAll ends every task: with a grace first, then at once.
func (p *place) endAll() {
	p.mu.Lock()
	var dones []<-chan struct{}
	for _, t := range p.live {
		t.end(endGrace)
		dones = append(dones, t.finished)
	}
	p.mu.Unlock()
	for _, done := range dones {
		<-done
	}
}

// When a place ends, its tasks have endGrace before they are killed.
const endGrace = 2 * time.Second

// fenced is the exit status of a store by a client of a lower generation.
const fenced = 77

// store executes a store of internal/supervisor: stdin, or a long script.
func (n *Node) store(p sshd.Program, s storage) int {
	data, err := io.ReadAll(p.Stdin)
	if err != nil || len(data) != s.size {
		return 1
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, pl := range n.places {
		if !pl.store(data, s.generation, s.file) {
			return fenced
		}
	}
	return 0
}

// store keeps a file, if it is one of the place's. It reports false if it is, and the client has been deposed.
func (p *place) store(data []byte, generation int, file string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	name, mine := strings.CutPrefix(file, p.root+"/t/")
	if mine && generation >= p.owner {
		p.files[name] = data
	}
	return !mine || generation >= p.owner
}

// A lease is the watcher of a place. It looks at every interval, as gt_watch does: it lapses up to two intervals after
// its time. It keeps the first client's settings.
type lease struct {
	interval, lease, ttl time.Duration
	armed                time.Time
	heard                time.Time // from a client, or from a task that holds it
	beat                 string    // the last
	selfDestruct         string
	timer                *time.Timer
	lapsed               bool // what ran was ended, and what has ended is kept, until a client is heard
}

// keep is the text of a machine that cannot end itself: supervisor.Keep.
const keep = "keep"

// arm starts the watcher, unless it runs. p.mu is held.
func (p *place) arm(interval, lease, ttl, selfDestruct string) {
	if p.lease.timer != nil {
		return
	}
	seconds := func(s string) time.Duration {
		n, _ := strconv.Atoi(s)
		return time.Duration(n) * time.Second
	}
	p.lease.interval, p.lease.lease, p.lease.ttl = max(seconds(interval), time.Second), seconds(lease), seconds(ttl)
	p.lease.armed, p.lease.heard, p.lease.selfDestruct = time.Now(), time.Now(), selfDestruct
	p.lease.timer = time.AfterFunc(p.lapses(), p.lapse)
}

// forever is longer than any lease.
const forever = 100 * 365 * 24 * time.Hour

// lapses returns how long it is until the watcher ends the node if no client is heard. p.mu is held.
func (p *place) lapses() time.Duration {
	l := &p.lease
	steps := func(d time.Duration) time.Duration { return (d + l.interval - 1) / l.interval * l.interval }
	// The first look sees the beat, and the time counts from there.
	left := max(steps(l.heard.Sub(l.armed)), l.interval) + steps(l.lease)
	if p.held() {
		left = forever
	}
	if l.ttl > 0 {
		left = min(left, steps(l.ttl))
	}
	return time.Until(l.armed.Add(left))
}

// held reports whether a task runs that holds the lease. p.mu is held.
func (p *place) held() bool {
	for _, t := range p.live {
		if t.hold {
			return true
		}
	}
	return false
}

// hear records a beat: a repeated one has no effect. p.mu is held.
func (p *place) hear(beat string) {
	if beat != p.lease.beat {
		p.lease.beat = beat
		p.renew()
	}
}

// renew makes the lease count from now. p.mu is held.
func (p *place) renew() {
	p.lease.heard = time.Now()
	if t := p.lease.timer; t != nil && (t.Stop() || p.lease.lapsed) {
		p.lease.lapsed = false
		t.Reset(p.lapses())
	}
}

func (l *lease) stop() {
	if l.timer != nil {
		l.timer.Stop()
	}
}

// cutOff is gt_cut: it ends what runs, and keeps what has ended, until a client is heard or the TTL is over. p.mu is held.
func (p *place) cutOff() {
	l := &p.lease
	l.lapsed = true
	if l.ttl > 0 {
		l.timer.Reset(time.Until(l.armed.Add(l.ttl)))
	}
	if s := p.session; s != nil {
		p.depose(s)
	}
	for _, t := range p.live {
		t.lapsed = true
		t.end(endGrace)
	}
}

// lapse ends the place by its lease or TTL.
func (p *place) lapse() {
	p.mu.Lock()
	if p.gone {
		p.mu.Unlock()
		return
	}
	if l := &p.lease; l.selfDestruct == keep && (l.ttl == 0 || time.Since(l.armed) < l.ttl) {
		p.cutOff()
		p.mu.Unlock()
		return
	}
	p.gone = true
	if s := p.session; s != nil {
		p.depose(s)
	}
	p.mu.Unlock()
	p.endAll()
	if p.lease.selfDestruct == "" || p.lease.selfDestruct == keep {
		p.node.forget(p)
	}
	if p.node.cfg.Lapsed != nil {
		p.node.cfg.Lapsed(p.lease.selfDestruct)
	}
}
