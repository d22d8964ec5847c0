package status

import (
	"fmt"
	"strings"

	"github.com/gputrain/gputrain/internal/printable"
	"github.com/gputrain/gputrain/observe"
	"github.com/gputrain/gputrain/observe/internal/runjson"
)

// Keys are by what a part of a Run is known in updates, and to the page, which makes them of the part's JSON.

func poolKey(p observe.Pool) string   { return keyOf(p.ID) }
func nodeKey(n observe.Node) string   { return keyOf(n.Key) }
func taskKey(t observe.Task) string   { return keyOf(t.Pool, t.ID) }
func groupKey(g observe.Group) string { return keyOf(g.Pool, g.Name) }
func phaseKey(p observe.Phase) string { return keyOf(p.Pool, p.Node, p.Name, runjson.Time(p.Began)) }
func transferKey(t observe.Transfer) string {
	return keyOf(t.Pool, t.Node, t.Task, t.What, runjson.Time(t.Began))
}
func failureKey(f observe.Failure) string { return keyOf(fmt.Sprint(f.Seq), f.Kind) }
func offerKey(o observe.Offer) string {
	return keyOf(o.Pool, o.Provider, o.InstanceType, o.Region, runjson.Time(o.At))
}

// keyOf joins parts by what none of them has.
func keyOf(parts ...string) string {
	for i := range parts {
		parts[i] = line(parts[i])
	}
	return strings.Join(parts, "\n")
}

// line returns what JSON has of a text of one line.
func line(s string) string { return printable.Line(s) }
