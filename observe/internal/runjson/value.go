package runjson

import (
	"encoding/json"
	"math"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/printable"
)

// A Number is null in JSON if it is not finite.
type Number float64

// MarshalJSON implements [json.Marshaler].
func (n Number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// Seconds returns a duration in seconds.
func Seconds(d time.Duration) Number { return Number(d.Seconds()) }

// Time returns a time in RFC 3339 and UTC, or "" for the zero time.
func Time(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// known returns a number, or one that is null in JSON.
func known(v float64, is bool) Number {
	if !is {
		return Number(math.NaN())
	}
	return Number(v)
}

func price(p gputrain.Price) Number { return known(p.USD()) }

// numbers maps values by their names. No values are nil.
func numbers(values map[string]float64) map[string]Number {
	if len(values) == 0 {
		return nil
	}
	all := make(map[string]Number, len(values))
	for name, v := range values {
		all[line(name)] = Number(v)
	}
	return all
}

// line and text return what can be shown of a text from a node or a provider, as one line or as several.
func line(s string) string { return printable.Line(s) }
func text(s string) string { return printable.Text(s) }

// each maps a slice. A nil slice becomes an empty one, which is an empty array in JSON.
func each[T, U any](all []T, f func(T) U) []U {
	mapped := make([]U, len(all))
	for i, v := range all {
		mapped[i] = f(v)
	}
	return mapped
}
