package telemetry

import (
	"testing"
	"time"
)

func TestIdle(t *testing.T) {
	begun := time.Unix(1e9, 0)
	at := func(minutes int) time.Time { return begun.Add(time.Duration(minutes) * time.Minute) }
	type look struct {
		minute    int
		ended     int
		waiting   bool
		nodes     []Activity
		warn, end bool
	}
	idle, unknown := []Activity{{Known: true, Tasks: true}}, []Activity{{Tasks: true}}
	for name, looks := range map[string][]look{
		"nothing":              {{minute: 14}, {minute: 15, warn: true}, {minute: 20}, {minute: 29}, {minute: 30, end: true}},
		"a task ends":          {{minute: 15, warn: true}, {minute: 20, ended: 18}, {minute: 33, ended: 18, warn: true}, {minute: 48, ended: 18, end: true}},
		"a task, not sampled":  {{minute: 10, nodes: unknown}, {minute: 50, nodes: unknown}, {minute: 66, warn: true}, {minute: 80, end: true}},
		"a task, and idle":     {{minute: 10, nodes: idle}, {minute: 25, nodes: idle, warn: true}, {minute: 40, nodes: idle, end: true}},
		"a busy device":        {{minute: 29, nodes: []Activity{{Known: true, Last: at(29)}}, warn: false}, {minute: 58, nodes: []Activity{{Known: true, Last: at(29)}}, warn: true}},
		"one of two is busy":   {{minute: 20, nodes: []Activity{{Known: true, Tasks: true, Last: at(20)}, {Known: true, Tasks: true}}}},
		"tasks wait for nodes": {{minute: 20, waiting: true}, {minute: 49, warn: true}},
		"tasks wait for idle":  {{minute: 1, waiting: true, nodes: idle}, {minute: 31, waiting: true, nodes: idle, warn: true, end: true}},
		"samples are missing":  {{minute: 10, nodes: idle}, {minute: 20, nodes: unknown}, {minute: 34, nodes: idle}, {minute: 50, nodes: idle, warn: true, end: true}},
	} {
		i := NewIdle(30*time.Minute, begun)
		for _, l := range looks {
			ended := time.Time{}
			if l.ended > 0 {
				ended = at(l.ended)
			}
			if _, warn, end := i.Look(at(l.minute), ended, l.waiting, l.nodes); warn != l.warn || end != l.end {
				t.Errorf("%s, minute %d: warns %t, ends %t", name, l.minute, warn, end)
			}
		}
	}
}
