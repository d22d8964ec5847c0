package console

import (
	"fmt"
	"strings"
	"time"
)

// Control sequences (ECMA-48; DEC's save and restore of the cursor with its attributes, scrolling region, index, and private mode
// 7, which wraps lines).
const (
	save       = "\x1b7"
	restore    = "\x1b8"
	resetTone  = "\x1b[0m"
	noRegion   = "\x1b[r"
	clearBelow = "\x1b[J"
	clearRow   = "\x1b[2K"
	index      = "\x1bD"
	noWrap     = "\x1b[?7l"
	wrap       = "\x1b[?7h"
)

// leave gives the whole terminal back. The cursor is above the block, so that the block is what is below it.
const leave = save + noRegion + restore + save + resetTone + clearBelow + restore

// tones are the colours of rows.
var tones = [...]string{plainTone: "", badTone: "\x1b[31m", warnTone: "\x1b[33m", busyTone: "\x1b[32m", faintTone: "\x1b[2m", strongTone: "\x1b[1m"}

const (
	// A block that needs fewer rows becomes smaller after shrinkAfter, so that it does not jump.
	shrinkAfter = 5 * time.Second
	// The whole block is drawn again after refreshAfter if something has changed: the program may have written into it.
	refreshAfter = 5 * time.Second
)

// A screen is the block in a terminal. The zero value is one that is not there.
type screen struct {
	height        int // the block's rows; 0 if there is no region
	columns, rows int // the terminal's
	shown         []row
	needed        time.Time // when it needed its height last
	drawn         time.Time // when all of it was drawn
	lost          bool      // the terminal may not have what was drawn
}

// lose has the next drawing set everything up again.
func (s *screen) lose() { s.lost = true }

// draw returns what shows the rows in a terminal, or "" if that is there already. No rows remove the block.
func (s *screen) draw(rows []row, d display, now time.Time) string {
	if len(rows) == 0 {
		return s.remove()
	}
	resized := s.columns != d.columns || s.rows != d.rows
	if len(rows) >= s.height || resized {
		s.needed = now
	} else if now.Sub(s.needed) < shrinkAfter {
		rows = append(make([]row, s.height-len(rows)), rows...)
	}
	var b strings.Builder
	all := false
	if s.lost || resized || len(rows) != s.height {
		b.WriteString(reserve(len(rows), d.rows))
		s.height, s.columns, s.rows, s.lost = len(rows), d.columns, d.rows, false
		all = true
	}
	var changed strings.Builder
	same := true
	refresh := all || now.Sub(s.drawn) >= refreshAfter
	for i, r := range rows {
		differs := all || i >= len(s.shown) || s.shown[i] != r
		same = same && !differs
		if !differs && !refresh {
			continue
		}
		fmt.Fprintf(&changed, "\x1b[%d;1H%s%s", d.rows-len(rows)+1+i, resetTone, clearRow)
		if tone := tones[r.tone]; d.color && tone != "" {
			changed.WriteString(tone + r.text + resetTone)
		} else {
			changed.WriteString(r.text)
		}
	}
	if same {
		return ""
	}
	if refresh {
		s.drawn = now
	}
	s.shown = append(s.shown[:0], rows...)
	region := ""
	if refresh && !all { // the program may have changed that too
		region = fmt.Sprintf("\x1b[1;%dr", d.rows-len(rows))
	}
	b.WriteString(save + region + noWrap + changed.String() + wrap + restore)
	return b.String()
}

// reserve returns what makes room for a block of so many rows at the end of a terminal, and has the rest scroll. What is above
// the cursor stays, and the cursor stays in its line: index moves it down, and scrolls at the end, without changing its column.
func reserve(height, rows int) string {
	return leave + strings.Repeat(index, height) + fmt.Sprintf("\x1b[%dA", height) +
		save + fmt.Sprintf("\x1b[1;%dr", rows-height) + restore
}

// remove returns what removes the block.
func (s *screen) remove() string {
	if s.height == 0 {
		return ""
	}
	*s = screen{}
	return leave
}
