package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/driver"
)

// clean returns a text of a node or a provider as one line that cannot control a terminal.
func clean(s string) string {
	return strings.Join(strings.Fields(cleanText(s)), " ")
}

// cleanText is clean for a text of several lines.
func cleanText(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return -1
	}, s)
}

// A table is printed in columns.
type table struct {
	rows [][]string
}

func (t *table) add(cells ...any) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		row[i] = clean(fmt.Sprint(cell))
		if row[i] == "" {
			row[i] = "-"
		}
	}
	t.rows = append(t.rows, row)
}

func (t *table) print(w io.Writer) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range t.rows {
		fmt.Fprintln(out, strings.Join(row, "\t"))
	}
	return out.Flush()
}

// printJSON prints a value as indented JSON.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// age returns a duration in its two greatest units: "42s", "5m10s", "2h10m", "3d4h".
func age(d time.Duration) string {
	s := int64(max(d, 0).Round(time.Second) / time.Second)
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%ds", s/60, s%60)
	case s < 86400:
		return fmt.Sprintf("%dh%dm", s/3600, s/60%60)
	}
	return fmt.Sprintf("%dd%dh", s/86400, s/3600%24)
}

// since returns the age of what began at a time, or "unknown".
func since(at, now time.Time) string {
	if at.IsZero() {
		return "unknown"
	}
	return age(now.Sub(at))
}

// dollars returns an amount.
func dollars(usd float64) string { return driver.USD(usd).String() }

// perHour returns a price: "$0.71/h", or "unknown".
func perHour(p gputrain.Price) string {
	if usd, known := p.USD(); known {
		return dollars(usd) + "/h"
	}
	return "unknown"
}

// spent returns an amount to which machines of unknown price add.
func spent(usd float64, unknown int) string {
	if unknown > 0 {
		return fmt.Sprintf("%s and %d unknown", dollars(usd), unknown)
	}
	return dollars(usd)
}

// amount is the price for JSON: null if it is not known.
func amount(p gputrain.Price) *float64 {
	if usd, known := p.USD(); known {
		return &usd
	}
	return nil
}

// seconds is a duration for JSON.
func seconds(d time.Duration) float64 { return math.Round(d.Seconds()*1000) / 1000 }

// count returns "1 pool" or "3 pools".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
