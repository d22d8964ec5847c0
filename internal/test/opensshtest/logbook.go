package opensshtest

import (
	"bufio"
	"os"
	"strings"
	"sync"
)

// A logbook collects the log of servers.
type logbook struct {
	wg    sync.WaitGroup
	mu    sync.Mutex
	files []*os.File
	text  strings.Builder
}

// follow stores what it reads from f until EOF. The returned channel receives whether a line contained mark.
func (l *logbook) follow(f *os.File, mark string) <-chan bool {
	seen := make(chan bool, 1)
	l.mu.Lock()
	l.files = append(l.files, f)
	l.mu.Unlock()
	l.wg.Go(func() {
		defer f.Close()
		found := false
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			l.mu.Lock()
			l.text.WriteString(lines.Text() + "\n")
			l.mu.Unlock()
			if !found && strings.Contains(lines.Text(), mark) {
				found = true
				seen <- true
			}
		}
		if !found {
			seen <- false
		}
	})
	return seen
}

// close stops following.
func (l *logbook) close() {
	l.mu.Lock()
	files := l.files
	l.mu.Unlock()
	for _, f := range files {
		f.Close()
	}
	l.wg.Wait()
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
