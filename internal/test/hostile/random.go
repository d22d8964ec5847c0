package hostile

import (
	"archive/tar"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"

	xssh "golang.org/x/crypto/ssh"
)

// Aims are the targets of random lies.
type Aims struct {
	// Names are files that the client requests, relative to its folder.
	Names []string
	// Outside are names that point to the user's files.
	Outside []string
	// IDs are the client's tasks on the node.
	IDs []string
	// Flood limits the bytes of one lie. Zero means 1 MiB.
	Flood int64
	// Talkative excludes lies that only make the node silent.
	Talkative bool
}

// A random liar has a few rules, each with its own random numbers. So its lies in a session do not depend on the order
// of concurrent sessions.
type random struct {
	aims   Aims
	rules  []rule
	beside *rule

	mu   sync.Mutex
	seen map[Kind]int
}

type rule struct {
	kind Kind // "" means any kind
	nth  int  // index of the session; -1 means every session
	seed uint64
}

// Random returns a liar whose lies are determined by r.
func Random(r *rand.Rand, aims Aims) Liar {
	if aims.Flood == 0 {
		aims.Flood = 1 << 20
	}
	l := &random{aims: aims, seen: map[Kind]int{}}
	for range 1 + r.IntN(3) {
		rule := rule{nth: r.IntN(6) - 3, seed: r.Uint64()}
		if rule.nth < 0 {
			rule.nth = -1
		}
		if r.IntN(5) > 0 {
			rule.kind = Kinds[r.IntN(len(Kinds))]
		}
		l.rules = append(l.rules, rule)
	}
	if r.IntN(8) == 0 {
		l.beside = &rule{seed: r.Uint64()}
	}
	return l
}

func (l *random) Session(kind Kind, _ string) *Lie {
	l.mu.Lock()
	n := l.seen[kind]
	l.seen[kind]++
	l.mu.Unlock()
	for _, rule := range l.rules {
		if (rule.kind == "" || rule.kind == kind) && (rule.nth < 0 || rule.nth == n) {
			return randomLie(kind, rand.New(rand.NewPCG(rule.seed, uint64(n))), l.aims)
		}
	}
	return nil
}

func (l *random) Banner() string {
	if l.beside == nil || l.beside.seed%2 == 0 {
		return ""
	}
	return strings.Repeat("\x1b[2J\x07welcome\r\n", int(l.beside.seed%5000))
}

// Connect sends the client unexpected requests.
func (l *random) Connect(conn *xssh.ServerConn) {
	if l.beside == nil {
		return
	}
	r := rand.New(rand.NewPCG(l.beside.seed, 1))
	for range 1 + r.IntN(40) {
		payload := noise(r, r.IntN(3000))
		if r.IntN(2) == 0 {
			name := pick(r, "keepalive@openssh.com", "hostkeys-00@openssh.com", "tcpip-forward", "\x1b[2J", strings.Repeat("x", 1000))
			if _, _, err := conn.SendRequest(name, r.IntN(2) == 0, payload); err != nil {
				return
			}
			continue
		}
		name := pick(r, "session", "forwarded-tcpip", "x11", "auth-agent@openssh.com", "forwarded-streamlocal@openssh.com", "\x00")
		ch, requests, err := conn.OpenChannel(name, payload)
		if err == nil {
			go xssh.DiscardRequests(requests)
			ch.Write(payload)
			ch.Close()
		}
	}
}

// RandomStream returns a lie for a worker's connection, determined by r.
func RandomStream(r *rand.Rand, aims Aims) Tamper {
	if aims.Flood == 0 {
		aims.Flood = 1 << 20
	}
	if r.IntN(4) == 0 {
		return randomTamper(r, aims)
	}
	return knowing(Worker, r, aims)
}

func randomLie(kind Kind, r *rand.Rand, aims Aims) *Lie {
	switch r.IntN(10) {
	case 0:
		answers := []Answer{Yes, No, Forged, Never}
		if aims.Talkative {
			answers = answers[:3]
		}
		answer := pick(r, answers...)
		return &Lie{Reply: func(string) Answer { return answer }}
	case 1:
		return &Lie{Exit: randomExit(r)}
	case 2:
		return &Lie{Stderr: randomTamper(r, aims), Exit: randomExit(r)}
	case 3, 4:
		return &Lie{Stdout: randomTamper(r, aims)}
	case 5:
		return &Lie{Beside: randomRequests(r)}
	}
	lie := &Lie{Stdout: knowing(kind, r, aims)}
	if r.IntN(4) == 0 {
		lie.Exit = randomExit(r)
	}
	return lie
}

// randomTamper returns a lie that ignores the protocol.
func randomTamper(r *rand.Rand, aims Aims) Tamper {
	text := noise(r, 1+r.IntN(300))
	size := 1 + r.Int64N(2000)
	var then Tamper
	switch r.IntN(9) {
	case 0:
		then = Cut
	case 1:
		then = Flood(text, r.Int64N(aims.Flood))
	case 2:
		then = Insert(text)
	case 3:
		then = Block(size, Drop)
	case 4:
		then = Block(size, Twice)
	case 5:
		then = Block(size, Swap)
	case 6:
		then = Block(1+r.Int64N(3), Flip(byte(1+r.IntN(255))))
	case 7:
		then = Crumbs
	default:
		then = Silence
		if aims.Talkative {
			then = Insert([]byte("\n"))
		}
	}
	// Most lies begin near the start, which is the most interesting part.
	return After(int64(float64(3000)*r.Float64()*r.Float64()*r.Float64()), then)
}

func randomExit(r *rand.Rand) func(*Session, string, []byte) {
	switch r.IntN(6) {
	case 0:
		return func(*Session, string, []byte) {} // no message about the end
	case 1:
		code := pick(r, 0, 1, 66, 77, 126, 127, 255, 256, 1<<31, 1<<32-1)
		return func(s *Session, _ string, _ []byte) { s.Status(uint32(code)) }
	case 2:
		return func(s *Session, kind string, payload []byte) {
			for range 3 {
				s.Request(kind, false, payload)
				s.Status(0)
			}
		}
	case 3:
		message := string(noise(r, r.IntN(20000)))
		return func(s *Session, _ string, _ []byte) { s.Signal("KILL", message) }
	case 4:
		name := pick(r, "", "\x1b]0;title\x07", "NOSUCH", strings.Repeat("X", 30000))
		return func(s *Session, _ string, _ []byte) { s.Signal(name, "") }
	}
	payload := noise(r, r.IntN(20))
	return func(s *Session, kind string, _ []byte) { s.Request(kind, false, payload) }
}

// randomRequests sends premature messages about the command's end, and unexpected requests.
func randomRequests(r *rand.Rand) func(*Session) {
	count, payload := 1+r.IntN(30), noise(r, r.IntN(2000))
	name := pick(r, "exit-status", "exit-signal", "exec", "env", "window-change", "eow@openssh.com", "\x1b[2J")
	reply, shut := r.IntN(2) == 0, r.IntN(2) == 0
	return func(s *Session) {
		for range count {
			if s.Request(name, reply, payload) != nil {
				return
			}
		}
		if shut {
			s.Shut()
		}
	}
}

// knowing returns a lie in the protocol that the client expects.
func knowing(kind Kind, r *rand.Rand, aims Aims) Tamper {
	switch kind {
	case Download:
		tamper := Archived(pick(r, "file", "folder"), randomEntries(r, aims)...)
		if r.IntN(10) == 0 {
			tamper = Endless(pick(r, "file", "folder"), aims.name(r), 1<<uint(r.IntN(63)), aims.Flood)
		}
		return tamper
	case Fetch:
		if r.IntN(10) == 0 {
			return Endless("", "./"+aims.name(r), 1<<uint(r.IntN(63)), aims.Flood)
		}
		return Fetched(aims.Names, randomEntries(r, aims)...)
	case Find:
		var names []string
		for range r.IntN(8) {
			names = append(names, aims.anyName(r))
		}
		return Listed(append(names, aims.Names[:min(len(aims.Names), r.IntN(3))]...)...)
	case Control:
		return Frames(randomFrames(r, aims))
	case Worker:
		return Messages(randomMessages(r, aims))
	case SFTP:
		return Packets(randomPackets(r, aims))
	}
	return randomTamper(r, aims)
}

// name returns a name that the client requests.
func (a Aims) name(r *rand.Rand) string {
	if len(a.Names) == 0 {
		return "name"
	}
	return pick(r, a.Names...)
}

func (a Aims) outside(r *rand.Rand) string {
	if len(a.Outside) == 0 {
		return "../../etc/passwd"
	}
	return pick(r, a.Outside...)
}

// anyName returns a valid, invalid or strange name.
func (a Aims) anyName(r *rand.Rand) string {
	switch r.IntN(8) {
	case 0:
		return a.outside(r)
	case 1:
		return a.name(r) + "/" + a.outside(r)
	case 2:
		return pick(r, "", ".", "..", "/", "//", "a//b", "a/../b", "a/./b", "-rf", "\x00", "a\x00b", "a\nb", "a\rb", "\x1b[2J", "\xff\xfe", "a\\b", "CON", ".gputrain-x",
			strings.Repeat("a", 300), strings.Repeat("a/", 2000)+"b", strings.Repeat("../", 50)+"etc/passwd")
	case 3:
		return a.name(r) + pick(r, "/", "/.", "/..", "/x", "\x00", " ", "/x/y")
	case 4:
		return strings.ToUpper(a.name(r))
	}
	return a.name(r)
}

// randomEntries returns entries of an archive, including pairs that are harmful only together.
func randomEntries(r *rand.Rand, aims Aims) (entries []Entry) {
	for range 1 + r.IntN(6) {
		name := pick(r, "", "./") + aims.anyName(r)
		body := strings.Repeat("x", r.IntN(2000))
		switch r.IntN(12) {
		case 0:
			entries = append(entries, Symlink(name, aims.outside(r)), File(name+"/x", body))
		case 1:
			entries = append(entries, Symlink(name, aims.outside(r)), File(name, body))
		case 2:
			entries = append(entries, File(name, body), Symlink(name, aims.outside(r)))
		case 3:
			entries = append(entries, Hardlink(name, aims.outside(r)))
		case 4:
			entries = append(entries, File(name, body), Hardlink(aims.anyName(r), name))
		case 5:
			entries = append(entries, Entry{Name: name, Kind: pick(r, tar.TypeBlock, tar.TypeChar, tar.TypeFifo, tar.TypeCont, byte('S'), byte('V'), byte('M'), byte('D'), byte(0xff), byte('g')), Body: body})
		case 6:
			entries = append(entries, Entry{Name: name, Size: pick(r, int64(-1), 1, 1<<20, 1<<40, 1<<62, -1<<62), Body: body})
		case 7:
			entries = append(entries, Entry{Name: name, Body: body, Pax: map[string]string{
				pick(r, "path", "linkpath", "size", "GNU.sparse.major", "GNU.sparse.size", "GNU.sparse.map", "GNU.sparse.realsize", "mtime"): pick(r, aims.outside(r), "1", "-1", "9223372036854775807", "0,1,5,9", ""),
				"GNU.sparse.name": aims.outside(r),
			}})
		case 8:
			entries = append(entries, Folder(name), Symlink(name, aims.outside(r)))
		case 9:
			entries = append(entries, Folder(name), File(name, body), Folder(name))
		default:
			entries = append(entries, Entry{Name: name, Mode: pick(r, int64(0), 0o777, 0o4755, 0o1), Body: body})
		}
	}
	if r.IntN(3) == 0 { // include the requested files too
		for _, name := range aims.Names {
			entries = append(entries, File("./"+name, "what was asked for"))
		}
	}
	return entries
}

// words are values to put into a frame.
var words = []string{"", "-1", "0", "1", "2", "7", "255", "256", "-9", "4294967296", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
	"1e9", "0x7f", "x", "o", "e", "-", "\x1b[2J", "\x00", "'", "$(x)", "../..", "exit", "signal", "oom", "timedout", "cancelled", "vanished", "never", "nodir", "fenced", "nofork",
	"perl", "F", "D", "SIGKILL", "gone", "linux", "amd64", strings.Repeat("9", 400), strings.Repeat("w", 5000)}

func randomFrames(r *rand.Rand, aims Aims) func(Frame) [][]byte {
	from, every := r.IntN(30), 1+r.IntN(4)
	how := r.IntN(9)
	var held []byte
	n := 0
	return func(f Frame) [][]byte {
		n++
		if n <= from || n%every != 0 {
			return [][]byte{f.Bytes()}
		}
		id := "nobody"
		if w := f.Words(); len(w) > 1 {
			id = w[1]
		}
		if len(aims.IDs) > 0 && r.IntN(2) == 0 {
			id = pick(r, aims.IDs...)
		}
		switch how {
		case 0:
			return [][]byte{f.With(1+r.IntN(8), pick(r, words...)).Bytes()}
		case 1:
			return [][]byte{f.Bytes(), f.Bytes()}
		case 2:
			return nil
		case 3:
			before := held
			held = f.Bytes()
			return [][]byte{before}
		case 4:
			return append(Lines(fmt.Sprintf("D %s %s - %s %s 0 0 0", id, pick(r, words...), pick(r, words...), pick(r, words...))), f.Bytes())
		case 5:
			return append(Lines(fmt.Sprintf("O %s %s %s %s", id, pick(r, "o", "e", "x"), pick(r, words...), pick(r, words...))), f.Bytes())
		case 6:
			return append([][]byte{f.Bytes()}, Lines(pick(r, "S", "G", "U", "V", "W", "M", "A", "B", "K", "P", "Z", "I", "J", "E", "H", "F", "X", "?")+" "+id+" "+pick(r, words...)+" "+pick(r, words...))...)
		case 7:
			return [][]byte{LongLine(r.IntN(100_000)), f.Bytes()}
		}
		f.Line = pick(r, words...) + f.Line
		return [][]byte{f.Bytes()}
	}
}

func randomMessages(r *rand.Rand, aims Aims) func(Message) [][]byte {
	from, every := r.IntN(5), 1+r.IntN(3)
	how := r.IntN(10)
	var held []byte
	n := 0
	return func(m Message) [][]byte {
		n++
		if n <= from || n%every != 0 {
			return [][]byte{m.Bytes()}
		}
		truth := m.Bytes()
		switch how {
		case 0:
			m.Type = byte(r.IntN(20))
			return [][]byte{m.Bytes()}
		case 1:
			m.ID = pick(r, 0, 1, m.ID+1, m.ID-1, 1<<64-1)
			return [][]byte{m.Bytes(), truth}
		case 2:
			return [][]byte{truth, truth}
		case 3:
			return nil
		case 4:
			before := held
			held = truth
			return [][]byte{before}
		case 5:
			m.Size = pick(r, uint32(1), 1<<20, 4<<20, 4<<20+1, 1<<31, 1<<32-1)
			return [][]byte{m.Bytes()}
		case 6:
			m.Payload = noise(r, r.IntN(3000))
			return [][]byte{m.Bytes(), truth}
		case 7:
			announced := uint64(1) << uint(r.IntN(63))
			out := [][]byte{Result(m.ID, announced, nil).Bytes()}
			for sent := int64(0); sent < aims.Flood/8; sent += 64 << 10 {
				out = append(out, Message{Type: MessageData, ID: m.ID, Payload: make([]byte, 64<<10)}.Bytes())
			}
			return out
		case 8:
			return [][]byte{Message{Type: MessageCredit, ID: m.ID, Payload: Uvarints(1 << uint(r.IntN(64)))}.Bytes(), truth}
		}
		for i := range m.Payload {
			if r.IntN(20) == 0 {
				m.Payload[i] ^= byte(1 << r.IntN(8))
			}
		}
		return [][]byte{m.Bytes()}
	}
}

func randomPackets(r *rand.Rand, aims Aims) func(Packet) [][]byte {
	from, every := r.IntN(5), 1+r.IntN(3)
	how := r.IntN(10)
	mode := pick(r, uint32(ModeFile), ModeFolder, ModeLink, ModeDevice, ModePipe, 0, 0xffffffff)
	n := 0
	return func(p Packet) [][]byte {
		n++
		if n <= from || n%every != 0 || len(p.Body) < 4 {
			return [][]byte{p.Bytes()}
		}
		truth := p.Bytes()
		switch how {
		case 0:
			p.Type = pick(r, byte(PacketVersion), PacketStatus, PacketHandle, PacketData, PacketName, PacketAttrs, 0, 255)
			return [][]byte{p.Bytes()}
		case 1:
			return [][]byte{truth, truth}
		case 2:
			p.Size = pick(r, uint32(1), 1<<20, 1<<31, 1<<32-1)
			return [][]byte{p.Bytes()}
		case 3:
			p.Body = append([]byte{}, p.Body...)
			copy(p.Body, noise(r, 4))
			return [][]byte{p.Bytes()}
		case 4:
			return [][]byte{p.Status(uint32(r.IntN(12)), string(noise(r, r.IntN(2000))))}
		case 5:
			if p.Type == PacketData {
				return [][]byte{p.Content(make([]byte, r.IntN(300_000)))}
			}
			return [][]byte{truth}
		case 6:
			if p.Type == PacketAttrs {
				return [][]byte{p.Attributes(Attributed{Mode: mode, Size: 1 << uint(r.IntN(63))})}
			}
			return [][]byte{truth}
		case 7, 8:
			if p.Type == PacketName {
				var files []Attributed
				for range r.IntN(4) {
					files = append(files, Attributed{aims.anyName(r), mode, uint64(r.IntN(5000))})
				}
				return [][]byte{p.Names(files...)}
			}
			return [][]byte{truth}
		}
		for i := range p.Body {
			if r.IntN(20) == 0 {
				p.Body[i] ^= byte(1 << r.IntN(8))
			}
		}
		return [][]byte{p.Bytes()}
	}
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func noise(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// Program is a source of random numbers made from a fuzz target's input: its bytes, and then numbers derived from them.
type Program struct {
	bytes io.Reader
	after *rand.PCG
}

// NewProgram returns the source for an input.
func NewProgram(input []byte) *Program {
	var sum uint64
	for _, b := range input {
		sum = sum*1099511628211 + uint64(b)
	}
	return &Program{strings.NewReader(string(input)), rand.NewPCG(sum, 1)}
}

// Uint64 implements rand.Source.
func (p *Program) Uint64() (n uint64) {
	var b [8]byte
	if _, err := io.ReadFull(p.bytes, b[:]); err != nil {
		return p.after.Uint64()
	}
	for _, c := range b {
		n = n<<8 | uint64(c)
	}
	return n
}
