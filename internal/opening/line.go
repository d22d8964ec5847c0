package opening

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/gputrain/gputrain/internal/printable"
)

const (
	// A pool that opens within patience shows no line.
	patience = time.Second
	// The line is drawn anew each redraw.
	redraw = time.Second
	// A terminal that takes nothing, as after Ctrl-S, is given up after stuck: a pool that could not be opened is then ended.
	stuck = time.Second
)

// Show shows in one line of a terminal what the pool waits for and what it costs, until the returned function is called: with true if the
// pool is open, of which a last line then tells. It does nothing if f is no terminal, or one that cannot erase a line.
func (p *Progress) Show(f *os.File, costs func() string) (end func(open bool)) {
	name, set := os.LookupEnv("TERM")
	if !term.IsTerminal(int(f.Fd())) || set && name == "dumb" {
		return func(bool) {}
	}
	return p.show(f, costs, func() int {
		width, _, err := term.GetSize(int(f.Fd()))
		if err != nil {
			return 80
		}
		return width
	})
}

func (p *Progress) show(w io.Writer, costs func() string, width func() int) (end func(open bool)) {
	over, drawn := make(chan struct{}), make(chan struct{})
	var last string // what is shown at the end; set before over is closed
	go func() {
		shown := false
		defer func() {
			if shown {
				fmt.Fprint(w, erase+last)
			}
			close(drawn)
		}()
		pause := time.NewTimer(patience)
		defer pause.Stop()
		for {
			select {
			case <-over:
				return
			case <-pause.C:
			}
			shown = true
			fmt.Fprint(w, erase+fit(said(p.line(), costs()), width())+"\r")
			pause.Reset(redraw)
		}
	}()
	var once sync.Once
	return func(open bool) {
		once.Do(func() {
			if open {
				last = fit(said(p.opened(), costs()), width()) + "\r\n"
			}
			close(over)
			select {
			case <-drawn:
			case <-time.After(stuck):
			}
		})
	}
}

// said joins what is waited for and what it costs, which is empty for hosts that are free.
func said(waits, costs string) string {
	if costs != "" {
		costs = "; " + costs
	}
	return "gputrain: " + waits + costs
}

// erase erases a line of a terminal.
const erase = "\r\x1b[K"

// fit cuts a text to the width of a terminal, without its last column, from which it would go to the next line.
func fit(text string, width int) string {
	text = printable.Line(text)
	if letters := []rune(text); width > 1 && len(letters) >= width {
		return string(letters[:width-2]) + "…"
	}
	return text
}

// line says in short what the pool waits for.
func (p *Progress) line() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.nodes) == 0 {
		return fmt.Sprintf("%s for %v", p.doing, time.Since(p.began).Round(time.Second))
	}
	all := p.coming(func(int, *node) string { return "" })
	text := fmt.Sprintf("%d of %d nodes ready", len(p.nodes)-len(all), len(p.nodes))
	if len(all) > 0 {
		text += ", " + strings.TrimSuffix(all[0], " for 0s")
	}
	return text
}

// opened says that the pool is open.
func (p *Progress) opened() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	ready := len(p.nodes) - len(p.coming(func(int, *node) string { return "" }))
	return fmt.Sprintf("%d of %d nodes ready after %v", ready, len(p.nodes), time.Since(p.began).Round(time.Second))
}
