package simnode

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

// calls are the calls of a session after gt_ready, as in runner.pl. The place's mu is held.
var calls = map[string]func(*place, []string){
	"start":  (*place).start,
	"list":   (*place).list,
	"state":  (*place).state,
	"cancel": (*place).cancel,
	"ask":    (*place).ask,
	"forget": (*place).forget,
	"drop":   (*place).drop,
	"env":    func(p *place, vars []string) { p.env = vars },
	"beat": func(p *place, w []string) {
		p.hear(w[0])
		p.answer("B")
	},
	"swept": func(p *place, w []string) { p.answer("K " + w[0]) },
	// Scratch directories are names only.
	"release": func(*place, []string) {},
}

// list prints every task that was not forgotten, in the order of their names: I ID, 1 if it is over, and the name of
// its scratch directory, and J at the end.
func (p *place) list([]string) {
	lines := map[string]string{}
	for id, t := range p.live {
		lines[id] = "0 " + t.scratch
	}
	for id, e := range p.ended {
		if !e.dropped {
			lines[id] = "1 " + e.scratch
		}
	}
	for _, id := range slices.Sorted(maps.Keys(lines)) {
		p.answer("I " + id + " " + lines[id])
	}
	p.answer("J")
}

// state ID: D done, S or G going, U unknown.
func (p *place) state(w []string) {
	switch t, over := p.live[w[0]], p.ended[w[0]]; {
	case over != nil && over.dropped:
		p.answer("U " + w[0])
	case over != nil:
		p.answer(over.line)
	case t == nil:
		p.answer("U " + w[0])
	case t.file[0] || t.file[1]:
		p.answer("G " + w[0])
	default:
		p.answer("S " + w[0])
	}
}

// cancel ID TENTHS ends a task, or makes sure that it never starts.
func (p *place) cancel(w []string) {
	if len(w) < 2 {
		return
	}
	t := p.live[w[0]]
	switch {
	case p.ended[w[0]] != nil:
		p.state(w)
	case t == nil:
		p.ends(w[0], "-", "0 - never - 0 0 0 ", [2][]byte{})
	default:
		tenths, _ := strconv.Atoi(w[1])
		t.cancelled = true
		t.end(time.Duration(tenths) * 100 * time.Millisecond)
	}
}

// ask TOKEN BUDGET (ID OUT ERR FINAL)... sends each stream from the offset OUT or ERR on, up to BUDGET bytes; with
// FINAL 1, also its length.
func (p *place) ask(w []string) {
	if len(w) < 2 || p.session == nil {
		return
	}
	budget, _ := strconv.Atoi(w[1])
	for rest := w[2:]; len(rest) >= 4; rest = rest[4:] {
		id := rest[0]
		out := [2][]byte{}
		if t := p.live[id]; t != nil {
			out = t.out
		} else if e := p.ended[id]; e != nil {
			out = e.out
		}
		for s, name := range []string{"o", "e"} {
			at, err := strconv.Atoi(rest[1+s])
			if err != nil || at < 0 {
				continue
			}
			if rest[3] == "1" {
				p.answer(fmt.Sprintf("Z %s %s %d", id, name, len(out[s])))
			}
			if at < len(out[s]) {
				data := out[s][at:min(at+budget, len(out[s]))]
				p.session.send(append(fmt.Appendf(nil, "O %s %s %d %d\n", id, name, at, len(data)), data...))
			}
		}
	}
	p.answer("P " + w[0])
}

// forget ID... removes what is left of finished tasks.
func (p *place) forget(ids []string) {
	p.drop(ids)
	for _, id := range ids {
		delete(p.ended, id)
	}
}

// drop ID... removes the output of finished tasks that must not start again.
func (p *place) drop(ids []string) {
	for _, id := range ids {
		if e := p.ended[id]; e != nil {
			e.dropped, e.out = true, [2][]byte{}
		}
		delete(p.files, id+".in")
		delete(p.files, id+".sh")
	}
}
