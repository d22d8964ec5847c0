package console

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"

	"github.com/gputrain/gputrain/internal/printable"
	"github.com/gputrain/gputrain/providers/driver"
)

// widths measures text as terminals outside of East Asian locales do. The screen cuts off what is wider in others.
var widths = &runewidth.Condition{StrictEmojiNeutral: true}

// longestText bounds the text of one field before it is measured.
const longestText = 2048

// clean returns a text of a node or a provider as one line without anything that controls a terminal.
func clean(s string) string {
	if len(s) > 2*longestText {
		s = s[:2*longestText]
	}
	s = strings.Join(strings.Fields(printable.Text(s)), " ")
	if len(s) > longestText {
		s = strings.ToValidUTF8(s[:longestText], "")
	}
	return s
}

// ascii replaces what is not ASCII, for terminals without UTF-8.
func ascii(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r < utf8.RuneSelf:
			return r
		case r == '…' || r == '·':
			return '.'
		case r == '≤':
			return '<'
		}
		return '?'
	}, s)
}

// fit cuts a text to a number of columns.
func fit(s string, columns int) string {
	if columns <= 0 {
		return ""
	}
	return widths.Truncate(s, columns, "…")
}

// pad cuts or fills a text to a number of columns.
func pad(s string, columns int) string {
	s = fit(s, columns)
	return s + strings.Repeat(" ", max(columns-widths.StringWidth(s), 0))
}

// span returns a duration in its two greatest units: "42s", "2m11s", "1h02m", "3d04h".
func span(d time.Duration) string {
	s := int64(max(d, 0).Round(time.Second) / time.Second)
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	case s < 86400:
		return fmt.Sprintf("%dh%02dm", s/3600, s/60%60)
	}
	return fmt.Sprintf("%dd%02dh", s/86400, s/3600%24)
}

// seconds returns a time that may be too long for a Duration.
func seconds(v float64) time.Duration {
	return time.Duration(min(max(v, 0), 9e9) * float64(time.Second))
}

// usd returns an amount of US dollars.
func usd(v float64) string { return driver.USD(v).String() }

// amount returns a number of a unit: "1.2 GiB" of bytes.
func amount(n int64, unit string) string {
	switch unit {
	case "By":
		v, i := float64(n), 0
		names := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
		for v >= 1024 && i < len(names)-1 {
			v /= 1024
			i++
		}
		if i == 0 || v >= 100 {
			return fmt.Sprintf("%.0f %s", v, names[i])
		}
		return fmt.Sprintf("%.1f %s", v, names[i])
	case "%":
		return fmt.Sprintf("%d%%", n)
	case "":
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d %s", n, clean(unit))
}

// of returns how much of a total there is: "12/27 packages", or "120.0 MiB/1.2 GiB".
func of(done, total int64, unit string) string {
	switch unit {
	case "By":
		return amount(done, unit) + "/" + amount(total, unit)
	case "%":
		return ""
	}
	return fmt.Sprintf("%d/", done) + amount(total, unit)
}

// bar returns a bar of so many columns.
func bar(part float64, columns int, unicode bool) string {
	part = min(max(part, 0), 1)
	if math.IsNaN(part) {
		part = 0
	}
	if unicode {
		full := int(part * float64(columns))
		return strings.Repeat("█", full) + strings.Repeat("░", columns-full)
	}
	full := int(part * float64(columns-2))
	return "[" + strings.Repeat("#", full) + strings.Repeat("-", columns-2-full) + "]"
}

// count returns "1 node" or "3 nodes".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
