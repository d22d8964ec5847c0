package bootstrap

import (
	"bytes"
	"io"
	"regexp"
	"strconv"
	"sync"
	"time"
)

// A Progress is how far a phase has come. Its fields are those of gputrain.Progress, which documents them.
type Progress struct {
	What        string
	Done, Total int64
	Unit        string
}

const (
	// progressPause is the least time between two reports of the same thing, except for its end.
	progressPause = 250 * time.Millisecond
	// progressBurst reports may come at once. After that there is one each progressPause, whatever the node says.
	progressBurst = 4
)

// Watch returns a writer that reads what package managers and container engines print, and calls told with how far they have
// come: once a line says how many there will be. told is called by one goroutine at a time.
func Watch(told func(Progress)) io.Writer { return &watched{told: told, layers: map[string]bool{}} }

// A watched is the output of a phase. Writing never fails.
type watched struct {
	told func(Progress)

	mu     sync.Mutex
	line   []byte
	found  Progress  // the newest
	at     time.Time // of the last report
	paid   time.Time // until when the reports so far take, at one each progressPause
	layers map[string]bool
	all    struct{ install, fetch int64 }
}

// watchedLine bounds the line that is read. What a phase prints is a node's text.
const watchedLine = 4 << 10

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for rest := p; len(rest) > 0; {
		i := bytes.IndexAny(rest, "\r\n")
		part := rest
		if i >= 0 {
			part = rest[:i]
		}
		if room := watchedLine - len(w.line); room > 0 {
			w.line = append(w.line, part[:min(room, len(part))]...)
		}
		if i < 0 {
			break
		}
		w.read(string(w.line))
		w.line, rest = w.line[:0], rest[i+1:]
	}
	return len(p), nil
}

// These are the lines that say how far something is: of apt, apk, dnf, uv, pip, and docker pull without a terminal.
var (
	aptCount   = regexp.MustCompile(`^(\d{1,6}) upgraded, (\d{1,6}) newly installed`)
	aptFetch   = regexp.MustCompile(`^Get:(\d{1,6}) `)
	aptSetUp   = regexp.MustCompile(`^Setting up \S`)
	apkStep    = regexp.MustCompile(`^\((\d{1,6})/(\d{1,6})\) (?:Installing|Upgrading|Replacing) `)
	dnfStep    = regexp.MustCompile(`^\s+(?:Installing|Upgrading|Reinstalling)\s*: .*\s(\d{1,6})/(\d{1,6})\s*$`)
	uvResolved = regexp.MustCompile(`^Resolved (\d{1,6}) packages? in `)
	uvPrepared = regexp.MustCompile(`^Prepared (\d{1,6}) packages? in `)
	uvDone     = regexp.MustCompile(`^Installed (\d{1,6}) packages? in `)
	uvFetched  = regexp.MustCompile(`^\s*Download(?:ed|ing) \S+`)
	layerLine  = regexp.MustCompile(`^([0-9a-f]{12}): (Pulling fs layer|Waiting|Pull complete|Already exists)\s*$`)
)

// read reads a line.
func (w *watched) read(line string) {
	if m := aptCount.FindStringSubmatch(line); m != nil {
		w.all.install = count(m[1]) + count(m[2])
		w.all.fetch = w.all.install // each is one file, as long as none is there already
		w.tell(Progress{What: "install", Total: w.all.install, Unit: "packages"})
	} else if m := aptFetch.FindStringSubmatch(line); m != nil && w.all.fetch > 0 {
		w.tell(Progress{What: "download", Done: min(count(m[1]), w.all.fetch), Total: w.all.fetch, Unit: "packages"})
	} else if aptSetUp.MatchString(line) && w.all.install > 0 {
		w.tell(Progress{What: "install", Done: min(w.doneOf("install")+1, w.all.install), Total: w.all.install, Unit: "packages"})
	} else if m := firstOf(line, apkStep, dnfStep); m != nil {
		w.tell(Progress{What: "install", Done: count(m[1]), Total: count(m[2]), Unit: "packages"})
	} else if m := uvResolved.FindStringSubmatch(line); m != nil {
		w.all.install = count(m[1])
		w.tell(Progress{What: "download", Total: w.all.install, Unit: "packages"})
	} else if m := firstOf(line, uvPrepared); m != nil && w.all.install > 0 {
		w.tell(Progress{What: "download", Done: w.all.install, Total: w.all.install, Unit: "packages"})
	} else if m := firstOf(line, uvDone); m != nil {
		n := count(m[1])
		w.tell(Progress{What: "install", Done: n, Total: n, Unit: "packages"})
	} else if uvFetched.MatchString(line) && w.all.install > 0 && w.found.What == "download" {
		w.tell(Progress{What: "download", Done: min(w.found.Done+1, w.all.install), Total: w.all.install, Unit: "packages"})
	} else if m := layerLine.FindStringSubmatch(line); m != nil && len(w.layers) < 1000 {
		w.layers[m[1]] = w.layers[m[1]] || m[2] == "Pull complete" || m[2] == "Already exists"
		var done int64
		for _, over := range w.layers {
			if over {
				done++
			}
		}
		w.tell(Progress{What: "pull", Done: done, Total: int64(len(w.layers)), Unit: "layers"})
	}
}

// doneOf returns how many are done, if this is what was reported last.
func (w *watched) doneOf(what string) int64 {
	if w.found.What != what {
		return 0
	}
	return w.found.Done
}

// tell reports a progress, unless another one of the same thing was reported just before and this is not its end, or many were
// reported.
func (w *watched) tell(p Progress) {
	if p == w.found {
		return
	}
	other := p.What != w.found.What
	w.found = p
	now := time.Now()
	if w.paid.Before(now) {
		w.paid = now
	}
	if w.paid.Sub(now) > (progressBurst-1)*progressPause {
		return
	}
	if other || p.Done == p.Total || now.Sub(w.at) >= progressPause {
		w.at, w.paid = now, w.paid.Add(progressPause)
		w.told(p)
	}
}

// firstOf returns the match of the first expression that matches.
func firstOf(line string, all ...*regexp.Regexp) []string {
	for _, re := range all {
		if m := re.FindStringSubmatch(line); m != nil {
			return m
		}
	}
	return nil
}

func count(digits string) int64 {
	n, _ := strconv.ParseInt(digits, 10, 64) // the expressions match short numbers only
	return n
}
