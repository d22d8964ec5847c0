package console

import (
	"fmt"
	"strings"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/observe"
)

// A line is what is written about a change.
type line struct {
	text string
	many string // what several lines like it are about, if there can be very many
}

// changes turns events into lines. It knows what it needs of the events before. The zero value is ready.
type changes struct {
	opened   map[string]time.Time // pools
	launched map[string]time.Time // nodes, by pool and rank
	waiting  map[string]string    // what pools wait for
	moving   map[string]bool      // transfers
}

// lines returns the lines of an event: none, or one.
func (c *changes) lines(ev *gputrain.Event) []line {
	if c.opened == nil {
		c.opened, c.launched, c.waiting, c.moving = map[string]time.Time{}, map[string]time.Time{}, map[string]string{}, map[string]bool{}
	}
	if _, ok := c.opened[ev.Pool]; !ok {
		c.opened[ev.Pool] = ev.Time
	}
	text, many := c.text(ev)
	if text == "" {
		return nil
	}
	if len(c.opened) > 1 && ev.Kind != gputrain.EventPool {
		text = clean(ev.Pool) + " " + text
	}
	return []line{{text, many}}
}

// text returns the line of an event, or "", and what several are about.
func (c *changes) text(ev *gputrain.Event) (text, many string) {
	node := fmt.Sprintf("node %d ", ev.Node)
	if ev.Node < 0 {
		node = ""
	}
	state := clean(ev.State)
	switch ev.Kind {
	case gputrain.EventPool:
		return c.pool(ev), ""
	case gputrain.EventNode:
		return c.node(ev), ""
	case gputrain.EventPhase:
		text := node + "phase " + clean(ev.Phase) + " " + state
		if ev.Elapsed > 0 && state != "started" {
			text += " after " + span(ev.Elapsed)
		}
		if ev.Err != nil {
			return because(text, ev.Err), ""
		}
		return text, "phases " + state
	case gputrain.EventTask, gputrain.EventRetry:
		return task(ev, node, state)
	case gputrain.EventPreemption:
		text := node + "preemption " + state
		if ev.State == "notice" && ev.Elapsed > 0 {
			text += ", " + span(ev.Elapsed) + " left"
		}
		return because(text, ev.Err), ""
	case gputrain.EventTransfer:
		return c.transfer(ev, node)
	case gputrain.EventTraining:
		text := "training " + clean(ev.Name) + " " + state
		if ev.Attempt > 0 {
			text += fmt.Sprintf(" attempt %d", ev.Attempt)
		}
		if ev.Path != "" {
			text += " " + clean(ev.Path)
		}
		return because(text, ev.Err), ""
	case gputrain.EventUsage:
		if ev.State == "sample" {
			return "", ""
		}
		text := node + "accelerators " + state
		if ev.State == "idle" {
			text = "idle for " + span(ev.Elapsed) + ", the pool ends at " + ev.Until.Local().Format(time.TimeOnly)
		}
		return because(text, ev.Err), ""
	case gputrain.EventOmitted:
		return count(ev.Omitted, "event") + " left out", ""
	case gputrain.EventOffer:
		return offered(ev, state), ""
	case gputrain.EventWait:
		text := because("waiting "+state, ev.Err)
		if ev.Node >= 0 { // for its machine
			text = because(node+"waits", ev.Err)
		}
		if c.waiting[ev.Pool] == text {
			return "", ""
		}
		c.waiting[ev.Pool] = text
		return text, ""
	case gputrain.EventTrouble:
		if ev.Err == nil { // there is none
			return "", ""
		}
		return because(node+"trouble "+state, ev.Err), ""
	}
	return "", ""
}

// because adds an error to a line.
func because(text string, err error) string {
	if err == nil {
		return text
	}
	return text + ": " + clean(err.Error())
}

func (c *changes) pool(ev *gputrain.Event) string {
	text := "pool " + clean(ev.Pool) + " " + clean(ev.State)
	switch ev.State {
	case "opening", "attaching":
		c.opened[ev.Pool] = ev.Time
		if ev.Spec != nil && ev.State == "opening" {
			text += " (" + count(max(ev.Spec.Nodes, 1), "node") + ")"
			if ev.Spec.MaxNodes > 0 {
				text = strings.TrimSuffix(text, ")") + fmt.Sprintf(" to %d)", ev.Spec.MaxNodes)
			}
		}
	case "ready", "closed", "detached":
		text += " after " + span(ev.Time.Sub(c.opened[ev.Pool]))
		delete(c.waiting, ev.Pool)
		if ev.Cost != nil && ev.State != "ready" {
			text += ", " + usd(ev.Cost.USD)
		}
	}
	return because(text, ev.Err)
}

func (c *changes) node(ev *gputrain.Event) string {
	key := fmt.Sprintf("%s\x00%d", ev.Pool, ev.Node)
	delete(c.waiting, ev.Pool)
	if _, ok := c.launched[key]; !ok {
		c.launched[key] = ev.Time
	}
	text := fmt.Sprintf("node %d %s", ev.Node, clean(ev.State))
	switch ev.State {
	case gputrain.NodeReady.String():
		n := observe.Node{Node: ev.At}
		text += " after " + span(ev.Time.Sub(c.launched[key]))
		if what := strings.TrimSpace(place(n) + " " + price(n)); what != "" {
			text += " (" + what + ")"
		}
	case gputrain.NodeLost.String(), gputrain.NodeFailed.String(), gputrain.NodeTerminated.String():
		delete(c.launched, key) // the next of this rank is another machine
	}
	return because(text, ev.Err)
}

// task returns the line of a task's event. That it was queued is in the summary alone.
func task(ev *gputrain.Event, node, state string) (text, many string) {
	text = "task " + clean(ev.Task)
	if ev.Name != "" && ev.Name != ev.Task {
		text += " (" + clean(ev.Name) + ")"
	}
	if ev.Kind == gputrain.EventRetry {
		return because(text+fmt.Sprintf(" retrying after attempt %d", ev.Attempt), ev.Err), ""
	}
	on := ""
	if node != "" {
		on = " on " + strings.TrimSpace(node)
	}
	switch ev.State {
	case "queued":
		return "", ""
	case "started":
		if ev.Attempt > 1 {
			state += fmt.Sprintf(" attempt %d", ev.Attempt)
		}
		return text + " " + state + on, "tasks started"
	case "silent":
		return text + " silent for " + span(ev.Elapsed) + on, ""
	}
	text += " " + state + on
	if ev.Attempt > 0 { // it has run
		text += " after " + span(ev.Elapsed)
	}
	if ev.State == "failed" {
		return because(text, ev.Err), ""
	}
	return because(text, ev.Err), "tasks " + state
}

// transfer returns the line of the first and of the last event of a transfer.
func (c *changes) transfer(ev *gputrain.Event, node string) (text, many string) {
	what := clean(ev.Path)
	switch {
	case ev.Task != "" && what == "":
		what = "outputs of " + clean(nameOf(ev.Name, ev.Task))
	case ev.Task != "":
		what += " of " + clean(nameOf(ev.Name, ev.Task))
	case what == "":
		what = clean(ev.Phase)
	}
	key := fmt.Sprintf("%s\x00%d\x00%s\x00%s", ev.Pool, ev.Node, ev.Task, what)
	text = node + "transfer " + what + " " + clean(ev.State)
	if ev.State == "done" || ev.State == "failed" {
		delete(c.moving, key)
		text += " after " + span(ev.Elapsed)
		if ev.Bytes > 0 {
			text += " (" + amount(ev.Bytes, "By") + ")"
		}
		if ev.State == "failed" {
			return because(text, ev.Err), ""
		}
		return text, "transfers done"
	}
	if ev.Err != nil {
		return because(text, ev.Err), ""
	}
	if c.moving[key] {
		return "", ""
	}
	c.moving[key] = true
	return text, "transfers begun"
}

func offered(ev *gputrain.Event, state string) string {
	if ev.Offer == nil {
		return ""
	}
	o := observe.Offer{InstanceType: ev.Offer.InstanceType, Region: ev.Offer.Region}
	o.HourlyUSD, o.Known = ev.Offer.HourlyUSD.USD()
	return because(strings.TrimSpace("offer "+offer(o))+" "+state, ev.Err)
}
