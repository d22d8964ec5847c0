package simnode

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/sshd"
)

// A session is a control session.
type session struct {
	node  *Node
	place *place // since gt_open
	out   io.Writer

	mu     sync.Mutex
	cond   sync.Cond // signals that a field below has changed
	frames []byte    // to be sent
	ended  bool
}

// shellCalls are the calls of a control session before gt_ready.
var shellCalls = map[string]func(*session, []string) bool{
	"gt_open": (*session).open,
}

// control serves a control session from its greeting on.
func (n *Node) control(in *input, p sshd.Program) int {
	s := &session{node: n, out: p.Stdout}
	s.cond.L = &s.mu
	var writer sync.WaitGroup
	writer.Go(s.write)
	defer writer.Wait()
	defer s.end()
	for {
		words, err := in.line()
		if err != nil || len(words) == 0 {
			return 255
		}
		switch call, known := shellCalls[words[0]]; {
		case words[0] == "echo":
			s.answer(strings.Join(words[1:], " "))
		case words[0] == "gt_ready" && s.place != nil:
			s.answer("H 0 perl")
			s.obey(in)
			return 0
		case known && !call(s, words[1:]):
			return 1
		}
	}
}

// obey executes messages until the session ends. A message is eight digits, the length of the rest, and words with NUL
// between them.
func (s *session) obey(in *input) {
	for {
		for len(in.b) < 8 {
			if in.more() != nil {
				return
			}
		}
		n, err := strconv.Atoi(string(in.b[:8]))
		if err != nil || n < 0 {
			return
		}
		for len(in.b) < 8+n {
			if in.more() != nil {
				return
			}
		}
		words := strings.Split(string(in.b[8:8+n]), "\x00")
		in.drop(8 + n)
		if call := calls[words[0]]; call != nil {
			s.place.mu.Lock()
			if s.place.session == s {
				call(s.place, words[1:])
			}
			s.place.mu.Unlock()
		}
	}
}

// answer queues a frame.
func (s *session) answer(line string) { s.send([]byte(line + "\n")) }

func (s *session) send(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frames = append(s.frames, b...)
	s.cond.Broadcast()
}

// write sends the queued frames until the session has ended.
func (s *session) write() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		for len(s.frames) == 0 && !s.ended {
			s.cond.Wait()
		}
		if len(s.frames) == 0 {
			return
		}
		b := s.frames
		s.frames = nil
		s.mu.Unlock()
		_, err := s.out.Write(b)
		s.mu.Lock()
		if err != nil {
			return
		}
	}
}

// end makes write return once the queue is sent.
func (s *session) end() {
	if s.place != nil {
		s.place.leave(s)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.cond.Broadcast()
}

// open is gt_open ROOT NAME HOW VERSION GENERATION BEAT INTERVAL LEASE TTL SELFDESTRUCT DISK ...: it makes the place on
// the first call and takes it over on every later one.
func (s *session) open(words []string) bool {
	refuse := func(why string) bool {
		s.answer("E " + why)
		return false
	}
	if len(words) < 11 {
		return false
	}
	root, name, how, version := words[0], words[1], words[2], words[3]
	generation, err := strconv.Atoi(words[4])
	if err != nil {
		return false
	}
	p := s.node.place(name, how == "start")
	if p == nil {
		return refuse("gone")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.root == "" {
		if root == "" {
			root = home + "/.gputrain/pools/" + name
		}
		p.root, p.version = root, version
	}
	switch {
	case p.root != root && how != "start":
		return refuse("gone")
	case p.version != version:
		return refuse("version " + p.version)
	case !p.admits(generation):
		return refuse("fenced")
	}
	if old := p.session; old != nil {
		p.depose(old)
	}
	if p.gone {
		return refuse("gone")
	}
	p.arm(words[6], words[7], words[8], words[9])
	p.hear(words[5])
	p.session, s.place = s, p
	if how != "again" {
		s.send(s.node.facts(p.root, p.lease.lease, words[10] == "1"))
	}
	return true
}

// home is the home folder on every simulated node.
const home = "/home/sim"

// facts returns the node's facts.
func (n *Node) facts(root string, lease time.Duration, disk bool) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "F home %s\nF root %s\nF lease %d\nF cache %s/.gputrain/cache\nF path /usr/bin:/bin\n", home, root, int(lease.Seconds()), home)
	if n.cfg.MemoryBytes > 0 {
		fmt.Fprintf(&b, "F memory %d\n", n.cfg.MemoryBytes)
	}
	if disk && n.cfg.DiskBytes > 0 {
		fmt.Fprintf(&b, "F df /dev/sim %d 0 %d 0%% /\n", n.cfg.DiskBytes>>10, n.cfg.DiskBytes>>10)
	}
	if len(n.cfg.GPUs) > 0 {
		b.WriteString("F tool nvidia-smi\n")
		for i, g := range n.cfg.GPUs {
			fmt.Fprintf(&b, "F nvidia GPU %d: %s (UUID: %s)\n", i, g.Name, g.UUID)
		}
	}
	fmt.Fprintf(&b, "F os Linux\nF arch %s\nF uid 1000\nF cpus %d\n", runtime.GOARCH, n.cfg.CPUs)
	return b.Bytes()
}
