package supervisor

import "fmt"

// output is the received output of a task, and the bounds of what may still come. The task's mu guards it.
type output struct {
	inbox   [2][]byte
	got     [2]int64 // bytes received of each stream
	final   [2]int64 // length of each stream once that is known; else -1
	inlined [2]int64 // length of a file whose content came with the end; else -1
	budget  int      // bytes of each stream that may come at once
	allowed [2]int64 // offset up to which each stream was asked for
	more    bool     // the last poll brought output: ask again at once
	pressed bool     // the rest was asked for, at once, when the task had ended
	files   bool     // there may be output in files, which must be asked for
}

const (
	minBudget = 128 << 10
	maxBudget = 8 << 20 // for all tasks of a node together, at least minBudget each
)

// At most inlineBytes of a stream come with the end of a task.
const inlineBytes = 4096

func newOutput() output {
	return output{budget: minBudget, final: [2]int64{-1, -1}, inlined: [2]int64{-1, -1}}
}

// add adds a piece of output, and reports whether it is new. The node may repeat output, but must not leave any out.
func (o *output) add(f *frame) (grown bool, err error) {
	s, end := f.stream, f.offset+int64(len(f.data))
	if f.kind == 'X' && f.last && f.offset == 0 {
		o.inlined[s] = -1
		if 0 < end && end < inlineBytes { // the whole stream, if the task's end comes next
			o.inlined[s] = end
		}
	}
	if f.offset > o.got[s] {
		return false, fmt.Errorf("%w: a gap in the output", errFrame)
	}
	if end > o.allowed[s]+inlineBytes {
		return false, fmt.Errorf("%w: more than was asked for of the output", errFrame)
	}
	skip := o.got[s] - f.offset
	if skip >= int64(len(f.data)) {
		return false, nil
	}
	o.inbox[s] = append(o.inbox[s], f.data[skip:]...)
	o.got[s] = end
	o.more = true
	return true, nil
}

// finish adds the output that comes with the end of a task, and records the lengths of the streams that the end
// contains.
func (o *output) finish(x outcome) {
	for s := range o.final {
		switch {
		case !x.inFile[s]:
			o.inbox[s] = append(o.inbox[s], x.text[s][min(o.got[s], int64(len(x.text[s]))):]...)
			o.got[s] = max(o.got[s], int64(len(x.text[s])))
			o.final[s] = o.got[s]
		case o.inlined[s] >= 0:
			o.final[s] = max(o.inlined[s], o.got[s])
		}
	}
}

// held returns how many bytes wait for the sinks.
func (o *output) held() int { return len(o.inbox[stdout]) + len(o.inbox[stderr]) }

// grant returns how many bytes may come at once: the more, the longer output keeps coming.
func (o *output) grant(limit int) int {
	if o.more {
		o.budget = min(2*o.budget, max(limit, minBudget))
	} else {
		o.budget = minBudget
	}
	o.more = false
	return o.budget
}

// expect records that the node was asked for budget bytes of each stream.
func (o *output) expect(budget int) {
	for s := range o.allowed {
		o.allowed[s] = max(o.allowed[s], o.got[s]+int64(budget))
	}
}

// move moves the received output to a caller, whose buffers it reuses.
func (o *output) move(out *[2][]byte) {
	for s := range out {
		o.inbox[s], out[s] = out[s][:0], o.inbox[s]
	}
}
