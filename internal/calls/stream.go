package calls

import (
	"bytes"

	"github.com/gputrain/gputrain/internal/output"
	"github.com/gputrain/gputrain/internal/worker"
)

// A stream is stdout or stderr of a worker's process. What the process prints is written to it.
type stream struct {
	divider *divider
	index   int
	node    *output.Lines // for what belongs to no call
	mark    []byte        // the part of the mark that has come
	marked  bool          // all of the mark has come

	// Guarded by divider.mu. Offsets are bytes after the mark.
	parts []part // from taken on, in order; the last one has no end
	taken int64  // up to here, bytes have an owner
	given int64  // up to here, the owner has them
}

// A part of a stream belongs to a call or to the node, or an earlier program has shown it.
type part struct {
	owner *callOutput // nil for the node
	shown bool        // by an earlier program
	end   int64       // where the next part begins
}

// Write takes what the process has printed. It never fails: that would end the process.
func (s *stream) Write(p []byte) (int, error) {
	all := len(p)
	if !s.marked {
		p = s.untilMark(p)
	}
	for len(p) > 0 {
		part, n := s.next(len(p))
		if !part.shown {
			s.give(part.owner, p[:n])
		}
		p = p[n:]
		s.divider.advance(s, n)
	}
	return all, nil
}

// untilMark shows what comes before the mark, and returns what comes after it.
func (s *stream) untilMark(p []byte) []byte {
	p = append(s.mark, p...)
	s.mark = nil
	before, after, found := bytes.Cut(p, []byte(worker.OutputMark))
	if !found {
		// The end may be the mark's beginning.
		keep := min(len(worker.OutputMark)-1, len(before))
		for !bytes.HasPrefix([]byte(worker.OutputMark), before[len(before)-keep:]) {
			keep--
		}
		before, s.mark = before[:len(before)-keep], bytes.Clone(before[len(before)-keep:])
	}
	s.marked = found
	s.divider.mu.Lock()
	earlier := s.parts[0].shown
	s.divider.mu.Unlock()
	if !earlier {
		s.give(nil, before)
	}
	return after
}

// next takes the next bytes, n at most, that have one owner.
func (s *stream) next(n int) (part, int) {
	s.divider.mu.Lock()
	defer s.divider.mu.Unlock()
	for len(s.parts) > 1 && s.parts[0].end <= s.taken {
		s.parts = s.parts[1:]
	}
	if len(s.parts) > 1 {
		n = int(min(int64(n), s.parts[0].end-s.taken))
	}
	s.taken += int64(n)
	return s.parts[0], n
}

// give hands bytes to a call, or to the node.
func (s *stream) give(owner *callOutput, p []byte) {
	if s.index == 1 {
		s.divider.last.Write(p)
	}
	if owner == nil {
		s.node.Write(p)
		s.divider.heard(p)
		return
	}
	owner.write(s.index, p)
}

// assignLocked makes all that follows an offset belong to a call, or to the node. What has an owner keeps it.
func (s *stream) assignLocked(owner *callOutput, from int64) {
	start, last := s.taken, &s.parts[len(s.parts)-1]
	if len(s.parts) > 1 {
		start = max(start, s.parts[len(s.parts)-2].end)
	}
	switch from = max(from, start); {
	case last.owner == owner && !last.shown:
	case from == start: // the last part is empty
		*last = part{owner: owner}
	default:
		last.end = from
		s.parts = append(s.parts, part{owner: owner})
	}
}

// end shows what is left, when nothing more comes.
func (s *stream) end() {
	if len(s.mark) > 0 {
		s.give(nil, s.mark)
	}
	s.node.Flush()
}
