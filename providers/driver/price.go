package driver

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// A Price is US dollars per hour for one machine. The zero value is an unknown price, which
// never means free.
type Price struct {
	usd   float64
	known bool
}

// USD returns a known price. USD(0) is free.
func USD(perHour float64) Price { return Price{usd: perHour, known: true} }

// USD returns the price in US dollars per hour, and whether it is known.
func (p Price) USD() (perHour float64, known bool) { return p.usd, p.known }

// String returns "$1.25" or "unknown". An amount below ten cents has up to four decimals, and one that they cannot
// show is "less than $0.0001": what costs something is never shown as free.
func (p Price) String() string {
	amount := math.Abs(p.usd)
	switch {
	case !p.known || math.IsNaN(amount) || math.IsInf(amount, 0):
		return "unknown"
	case 0 < p.usd && p.usd < 0.0001:
		return "less than $0.0001"
	}
	text := strconv.FormatFloat(amount, 'f', 2, 64)
	if amount < 0.1 {
		text = strconv.FormatFloat(amount, 'f', 4, 64)
		text = strings.TrimSuffix(strings.TrimSuffix(text, "0"), "0")
	}
	if p.usd < 0 && strings.Trim(text, "0.") != "" {
		return "-$" + text
	}
	return "$" + text
}

// MarshalJSON returns the price in US dollars per hour, or null if it is not known.
func (p Price) MarshalJSON() ([]byte, error) {
	if !p.known {
		return []byte("null"), nil
	}
	return json.Marshal(p.usd)
}

// UnmarshalJSON reads what MarshalJSON has written.
func (p *Price) UnmarshalJSON(text []byte) error {
	var usd *float64
	if err := json.Unmarshal(text, &usd); err != nil {
		return err
	}
	*p = Price{}
	if usd != nil {
		*p = USD(*usd)
	}
	return nil
}
