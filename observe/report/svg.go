package report

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
	"time"
)

// The figures have these coordinates. Their style sheet scales them to the width of the page.
const (
	figureWidth = 1000.0
	leftMargin  = 90.0
	rightMargin = 20.0
	plotWidth   = figureWidth - leftMargin - rightMargin
	plotHeight  = 180.0
)

// svg returns a figure with a title and a description for those who do not see it.
func svg(id string, height float64, title, description, body string) string {
	return fmt.Sprintf("<svg viewBox=\"0 0 %s %s\" role=\"img\" aria-labelledby=\"%s-title %[3]s-desc\">\n<title id=\"%[3]s-title\">%[4]s</title>\n<desc id=\"%[3]s-desc\">%[5]s</desc>\n%[6]s</svg>",
		coordinate(figureWidth), coordinate(height), id, html.EscapeString(title), html.EscapeString(description), body)
}

// coordinate returns a number as SVG has it, with a tenth of a pixel.
func coordinate(v float64) string {
	if v = finite(v); math.Abs(v) < 0.05 {
		return "0"
	}
	return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
}

// label returns a text of a figure. The anchor is "start", "middle" or "end".
func label(x, y float64, anchor, text string) string {
	return fmt.Sprintf("<text x=\"%s\" y=\"%s\" text-anchor=\"%s\">%s</text>\n", coordinate(x), coordinate(y), anchor, html.EscapeString(text))
}

// A timeScale maps times to x coordinates. to is after from.
type timeScale struct{ from, to time.Time }

func (s timeScale) x(t time.Time) float64 {
	part := float64(t.Sub(s.from)) / float64(s.to.Sub(s.from))
	return leftMargin + plotWidth*min(max(finite(part), 0), 1)
}

// axis returns lines and labels of an axis below a figure.
func (s timeScale) axis(top, bottom float64) string {
	var b strings.Builder
	whole := s.to.Sub(s.from)
	step := tickOf(whole)
	for i := range time.Duration(9) {
		at := i * step
		if at < 0 || at > whole {
			break
		}
		x := s.x(s.from.Add(at))
		fmt.Fprintf(&b, "<path class=\"grid\" d=\"M%s %sV%s\"/>\n", coordinate(x), coordinate(top), coordinate(bottom))
		anchor := "middle"
		if x > figureWidth-rightMargin-30 {
			anchor = "end"
		}
		b.WriteString(label(x, bottom+14, anchor, tickText(at, step)))
	}
	return b.String()
}

// tickOf returns the time between two labels, of which there are at most nine.
func tickOf(whole time.Duration) time.Duration {
	for _, step := range []time.Duration{
		100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute,
		10 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour,
	} {
		if whole/step <= 8 {
			return step
		}
	}
	return whole/8 + 1
}

// tickText returns the time since the beginning: "0", "30s", "5m", "1h30m".
func tickText(at, step time.Duration) string {
	if at == 0 {
		return "0"
	}
	if at >= 48*time.Hour && step >= 24*time.Hour {
		return fmt.Sprintf("%dd", at/(24*time.Hour))
	}
	text := at.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// legend returns the explanation of colours and signs, in a row.
func legend(y float64, entries ...[2]string) string {
	var b strings.Builder
	x := leftMargin
	for _, e := range entries {
		b.WriteString(fmt.Sprintf(e[0], coordinate(x), coordinate(y)))
		b.WriteString(label(x+22, y, "start", e[1]))
		x += 22 + 5.8*float64(len(e[1])) + 16
	}
	return b.String()
}

// box and stroke are signs of a legend, at a place that legend fills in.
func box(class string) string {
	return "<g transform=\"translate(%s %s)\"><rect class=\"" + class + "\" y=\"-9\" width=\"16\" height=\"10\"/></g>\n"
}

func stroke(class string) string {
	return "<g transform=\"translate(%s %s)\"><path class=\"" + class + "\" d=\"M0 -4H16\"/></g>\n"
}
