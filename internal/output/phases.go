package output

import (
	"io"
	"sync"
)

// Phases show the output of the phases of one piece of work, such as a node's bootstrap: each line under the work's
// label and the phase's name.
type Phases struct {
	printer *Printer
	label   string
	node    int

	mu    sync.Mutex
	lines []*Lines
}

// Phases returns the Phases of a piece of work, "node 0" for example, on the node of a rank, or of -1.
func (p *Printer) Phases(label string, node int) *Phases {
	return &Phases{printer: p, label: label, node: node}
}

// Writer returns a writer for the output of a phase, which is shown on the user's stdout. It may be called from several
// goroutines.
func (s *Phases) Writer(phase string) io.Writer {
	w, _ := s.printer.Lines(Source{Label: s.label + " " + phase, Node: s.node, Phase: phase})
	if w == nil {
		return io.Discard
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, w)
	return w
}

// Flush shows last lines that have no end. It is called when the phases are over.
func (s *Phases) Flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.lines {
		w.Flush()
	}
}
