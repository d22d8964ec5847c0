package worker

// forgotten are the calls that a client has given up or is done with. The daemon may still send frames about them,
// since it may not know yet. Any other frame about a call that is not open breaks the protocol.
type forgotten struct {
	ids   map[uint64]bool
	order []uint64
}

// mostForgotten bounds how many are remembered: a frame about an older one breaks the protocol.
const mostForgotten = 1 << 16

func (f *forgotten) add(id uint64) {
	if f.ids == nil {
		f.ids = map[uint64]bool{}
	}
	if f.ids[id] {
		return
	}
	f.ids[id] = true
	if f.order = append(f.order, id); len(f.order) > mostForgotten {
		delete(f.ids, f.order[0])
		f.order = f.order[1:]
	}
}

func (f *forgotten) has(id uint64) bool { return f.ids[id] }

// clear forgets them all: a new link carries only frames about the calls in its hello.
func (f *forgotten) clear() { f.ids, f.order = nil, nil }
