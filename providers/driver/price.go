package driver

import (
	"encoding/json"
	"strconv"
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

// String returns "$1.25" or "unknown".
func (p Price) String() string {
	if !p.known {
		return "unknown"
	}
	prec := 2
	if p.usd != 0 && p.usd < 0.1 {
		prec = 4
	}
	return "$" + strconv.FormatFloat(p.usd, 'f', prec, 64)
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
