package console

import (
	"fmt"
	"strings"
	"time"

	"github.com/gputrain/gputrain/observe"
)

// The parts of the last line, in order.
const (
	tasksPart = iota
	ratePart
	etaPart
	hourlyPart
	spentPart
	boundPart
	parts
)

// Each step makes the last line shorter, if it is too wide.
var shorter = []int{boundPart, tasksPart, ratePart, spentPart, hourlyPart, tasksPart, boundPart, etaPart, tasksPart, spentPart}

// lastLine returns tasks and costs in a number of columns.
func lastLine(run observe.Run, columns int) string {
	forms := summary(run)
	text := join(forms, " · ")
	for _, part := range shorter {
		if widths.StringWidth(text) <= columns {
			break
		}
		if len(forms[part]) > 1 {
			forms[part] = forms[part][1:]
		} else if part != tasksPart {
			forms[part] = nil
		}
		text = join(forms, " · ")
	}
	return text
}

// join joins the first forms of the parts.
func join(forms [parts][]string, between string) string {
	var texts []string
	for _, f := range forms {
		if len(f) > 0 && f[0] != "" {
			texts = append(texts, f[0])
		}
	}
	return strings.Join(texts, between)
}

// summary returns the parts of the last line, each in several forms, the longest first.
func summary(run observe.Run) (forms [parts][]string) {
	c := run.Counts
	ended := c.Done + c.Failed + c.Cancelled
	cancelled := ""
	if c.Cancelled > 0 {
		cancelled = fmt.Sprintf(", %d cancelled", c.Cancelled)
	}
	forms[tasksPart] = []string{
		fmt.Sprintf("%d/%d tasks done, %d running, %d waiting, %d failed%s", c.Done, c.Tasks(), c.Running, c.Waiting, c.Failed, cancelled),
		fmt.Sprintf("%d/%d done, %d run, %d wait, %d fail", c.Done, c.Tasks(), c.Running, c.Waiting, c.Failed),
		fmt.Sprintf("%d/%d, %d fail", c.Done, c.Tasks(), c.Failed),
		fmt.Sprintf("%d/%d", ended, c.Tasks()),
	}
	if c.Tasks() == 0 {
		forms[tasksPart] = []string{"no tasks yet", "no tasks"}
	}
	if rate := taskRate(run); rate > 0 && c.Running+c.Waiting > 0 {
		forms[ratePart] = []string{fmt.Sprintf("%.3g tasks/min", rate)}
		if rate >= 1000 {
			forms[ratePart][0] = fmt.Sprintf("%.0f tasks/min", rate)
		}
	}
	if eta, ok := rest(run); ok {
		forms[etaPart] = []string{"ETA " + span(eta)}
	}
	unknown := 0
	for _, p := range run.Pools {
		unknown += p.Cost.Unknown
	}
	if run.HourlyUSD > 0 {
		forms[hourlyPart] = []string{usd(run.HourlyUSD) + "/h"}
	}
	spent := usd(run.SpentUSD)
	if run.BudgetUSD > 0 {
		spent += " of " + usd(run.BudgetUSD)
	}
	forms[spentPart] = []string{spent + " spent", spent}
	if unknown > 0 {
		forms[spentPart][0] += fmt.Sprintf(" (%s of unknown price)", count(unknown, "machine"))
	}
	switch {
	case c.Ready+c.Starting+c.Broken == 0:
	case run.Bounded:
		forms[boundPart] = []string{fmt.Sprintf("at most %s if this program dies now", usd(run.AtMostUSD)), "≤" + usd(run.AtMostUSD)}
	default:
		forms[boundPart] = []string{"unbounded if this program dies now", "unbounded"}
	}
	return forms
}

// closingLine says what all pools were, or "" if there was none.
func closingLine(run observe.Run) string {
	if len(run.Pools) == 0 {
		return ""
	}
	c := run.Counts
	var texts []string
	if len(run.Pools) > 1 {
		texts = append(texts, count(len(run.Pools), "pool"))
	}
	texts = append(texts, count(len(run.Nodes), "node"), fmt.Sprintf("%d/%d tasks done", c.Done, c.Tasks()))
	for _, more := range []struct {
		n    int
		word string
	}{{c.Failed, "failed"}, {c.Cancelled, "cancelled"}, {c.Running + c.Waiting, "not finished"}} {
		if more.n > 0 {
			texts = append(texts, fmt.Sprintf("%d %s", more.n, more.word))
		}
	}
	spent := usd(run.SpentUSD)
	for _, p := range run.Pools {
		if p.Cost.Unknown > 0 {
			spent += " and prices that are not known"
			break
		}
	}
	return "gputrain: " + strings.Join(append(texts, span(lasted(run)), spent), ", ")
}

// lasted returns the time from the first event until the end of the last pool.
func lasted(run observe.Run) time.Duration {
	end := time.Time{}
	for _, p := range run.Pools {
		if p.Closed.IsZero() {
			return run.At.Sub(run.Began)
		}
		if p.Closed.After(end) {
			end = p.Closed
		}
	}
	return end.Sub(run.Began)
}

// plainSummary returns a line that sums up.
func plainSummary(run observe.Run) string {
	c := run.Counts
	nodes := fmt.Sprintf("nodes %d ready", c.Ready)
	for _, more := range []struct {
		n    int
		word string
	}{{c.Starting, "starting"}, {c.Broken, "failed"}} {
		if more.n > 0 {
			nodes += fmt.Sprintf(", %d %s", more.n, more.word)
		}
	}
	text := "summary: " + nodes + "; " + join(summary(run), "; ")
	for _, p := range run.Pools {
		if p.Closed.IsZero() && p.Waiting != "" {
			text += "; " + prefix(run, p.ID) + "waiting " + clean(p.Waiting)
		}
	}
	return text
}
