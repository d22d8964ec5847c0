package report

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// plotPoints is how many points a curve has.
const plotPoints = 160

// costPlot draws what the run had cost at each time. It is "" if it has cost nothing.
func costPlot(s *summary) string {
	if s.SpentUSD <= 0 {
		return ""
	}
	spent := s.spentOver(plotPoints)
	top := s.SpentUSD
	for _, v := range spent {
		top = max(top, v)
	}
	budget := finite(s.run.BudgetUSD)
	showsBudget := budget > 0 && budget <= 4*top
	if showsBudget {
		top = max(top, budget)
	}
	p := newPlot(s, top, usd)
	entries := [][2]string{{stroke("first"), "spent"}}
	p.curve("first", spent)
	if showsBudget {
		level := make([]float64, plotPoints)
		for i := range level {
			level[i] = budget
		}
		p.curve("third", level)
		entries = append(entries, [2]string{stroke("third"), "budget"})
	}
	return p.svg("cost-figure", "Cost over time", fmt.Sprintf("The run had cost %s after %s.", usd(s.SpentUSD), took(s.elapsed())), entries...)
}

// spentOver returns what was spent at so many moments. The cost of a node is spread over its time, and other costs over all of it.
func (s *summary) spentOver(points int) []float64 {
	spent := make([]float64, points)
	for i := range spent {
		at := s.From.Add(time.Duration(float64(s.elapsed()) * float64(i) / float64(points-1)))
		spent[i] = s.OtherUSD * float64(i) / float64(points-1)
		for _, n := range s.Nodes {
			part := 1.0
			if life := n.To.Sub(n.From); life > 0 {
				part = min(max(float64(at.Sub(n.From))/float64(life), 0), 1)
			} else if at.Before(n.From) {
				part = 0
			}
			spent[i] += n.USD * part
		}
		spent[i] = max(spent[i], 0)
	}
	return spent
}

// usePlot draws how much of the nodes was used. It is "" without nodes.
func usePlot(s *summary) string {
	if len(s.Nodes) == 0 {
		return ""
	}
	p := newPlot(s, 100, percent)
	p.curve("first", s.busyOver(plotPoints))
	entries := [][2]string{{stroke("first"), "nodes with a task"}}
	accelerators, cpu := s.loadOver(plotPoints)
	if hasNumber(accelerators) {
		p.curve("second", accelerators)
		entries = append(entries, [2]string{stroke("second"), "accelerators"})
	}
	if hasNumber(cpu) {
		p.curve("third", cpu)
		entries = append(entries, [2]string{stroke("third"), "processors"})
	}
	busy, whole := 0.0, 0.0
	for _, n := range s.Nodes {
		life := n.To.Sub(n.From).Seconds()
		busy, whole = busy+life*n.Busy/100, whole+life
	}
	description := "The nodes were there for no time."
	if whole > 0 {
		description = fmt.Sprintf("Nodes had a task in %s of their time.", percent(100*busy/whole))
	}
	return p.svg("use-figure", "Use of the nodes over time", description, entries...)
}

// busyOver returns the part of the nodes that had a task in each of so many spans of time, in percent. It is NaN without nodes.
func (s *summary) busyOver(spans int) []float64 {
	there, busy := make([]float64, spans), make([]float64, spans)
	for _, n := range s.Nodes {
		s.spread(there, interval{n.From, n.To})
		for _, w := range n.Work {
			s.spread(busy, w)
		}
	}
	for i := range busy {
		busy[i] = 100 * busy[i] / there[i] // NaN for 0/0
	}
	return busy
}

// spread adds the part of each span that an interval covers.
func (s *summary) spread(spans []float64, i interval) {
	width := float64(s.elapsed()) / float64(len(spans))
	from, to := float64(i.Began.Sub(s.From))/width, float64(i.Ended.Sub(s.From))/width
	for k := max(int(from), 0); k < len(spans) && float64(k) < to; k++ {
		spans[k] += max(min(to, float64(k+1))-max(from, float64(k)), 0)
	}
}

// loadOver returns the means of the nodes' samples in so many spans of time, in percent. They are NaN without samples.
func (s *summary) loadOver(spans int) (accelerators, cpu []float64) {
	accelerators, cpu = make([]float64, spans), make([]float64, spans)
	counts := [2][]float64{make([]float64, spans), make([]float64, spans)}
	for _, n := range s.Nodes {
		for _, l := range n.Load {
			k := int(float64(spans) * float64(l.At.Sub(s.From)) / float64(s.elapsed()))
			if l.At.Before(s.From) || k < 0 || k > spans {
				continue
			}
			k = min(k, spans-1)
			for j, v := range [2]float64{l.Accelerators, l.CPU} {
				if v >= 0 && !math.IsInf(v, 0) { // and is a number
					[2][]float64{accelerators, cpu}[j][k] += v
					counts[j][k]++
				}
			}
		}
	}
	for k := range spans {
		accelerators[k], cpu[k] = accelerators[k]/counts[0][k], cpu[k]/counts[1][k]
	}
	return accelerators, cpu
}

func hasNumber(values []float64) bool {
	for _, v := range values {
		if !math.IsNaN(v) {
			return true
		}
	}
	return false
}

// A plot draws curves over the report's time, from 0 to a greatest value.
type plot struct {
	body  strings.Builder
	top   float64
	scale timeScale
}

const plotTop = 24.0

func newPlot(s *summary, top float64, text func(float64) string) *plot {
	p := &plot{top: top, scale: timeScale{s.From, s.To}}
	p.body.WriteString(p.scale.axis(plotTop, plotTop+plotHeight))
	for i := range 5 {
		v := top * float64(i) / 4
		fmt.Fprintf(&p.body, "<path class=\"grid\" d=\"M%s %sH%s\"/>\n", coordinate(leftMargin), coordinate(p.y(v)), coordinate(leftMargin+plotWidth))
		p.body.WriteString(label(leftMargin-8, p.y(v)+4, "end", text(v)))
	}
	return p
}

func (p *plot) y(v float64) float64 {
	return plotTop + plotHeight*(1-min(max(v/p.top, 0), 1))
}

// curve draws values at equal distances. Values that are no numbers within the curve are bridged by a line.
func (p *plot) curve(class string, values []float64) {
	var d strings.Builder
	for i, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		command := "L"
		if d.Len() == 0 {
			command = "M"
		}
		d.WriteString(command + coordinate(leftMargin+plotWidth*float64(i)/float64(len(values)-1)) + " " + coordinate(p.y(v)))
	}
	if d.Len() > 0 {
		fmt.Fprintf(&p.body, "<path class=\"%s\" d=\"%s\"/>\n", class, d.String())
	}
}

func (p *plot) svg(id, title, description string, entries ...[2]string) string {
	return svg(id, plotTop+plotHeight+24, title, description, legend(12, entries...)+p.body.String())
}
