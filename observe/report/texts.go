package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gputrain/gputrain/internal/printable"
	"github.com/gputrain/gputrain/providers/driver"
)

// A text of a node or a provider is cut after so many bytes.
const (
	longestLine = 400
	longestText = 4000
)

// clean returns a text of several lines that can be shown: without control characters and others that XML forbids, and not
// longer than longestText.
func clean(s string) string { return cut(allowed(printable.Text(cut(s, 2*longestText))), longestText) }

// cleanLine returns a text as one line that can be shown, not longer than longestLine.
func cleanLine(s string) string {
	return cut(strings.Join(strings.Fields(allowed(printable.Text(cut(s, 8*longestLine)))), " "), longestLine)
}

// indented is cleanLine that keeps spaces, for lines of a program's output.
func indented(s string) string {
	return cut(allowed(printable.Line(cut(s, 8*longestLine))), longestLine)
}

// firstLine is cleanLine of a text's first line.
func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimLeft(printable.Text(cut(s, 8*longestLine)), "\n"), "\n")
	return cleanLine(line)
}

// allowed replaces the characters that XML and HTML do not allow.
func allowed(s string) string {
	return strings.Map(func(r rune) rune {
		if r&0xfffe == 0xfffe {
			return utf8.RuneError
		}
		return r
	}, s)
}

// cut returns the beginning of a text that is too long, with an ellipsis.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "…"
}

// usd returns an amount. What is left of a sum by rounding is nothing.
func usd(v float64) string { return driver.USD(math.Round(finite(v)*1e4) / 1e4).String() }

// percent returns a share in percent.
func percent(v float64) string {
	v = finite(v)
	if v != 0 && math.Abs(v) < 0.95 {
		return strconv.FormatFloat(v, 'f', 1, 64) + " %"
	}
	return strconv.FormatFloat(v, 'f', 0, 64) + " %"
}

// took returns a duration: "2m11s", "340ms".
func took(d time.Duration) string {
	switch {
	case d <= 0:
		return "0s"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// clock returns a moment in UTC, or "" for zero.
func clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05")
}

// count returns a number with a noun: "1 node", "2 nodes".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
