// Package currency converts prices that clouds state in other currencies to US dollars.
package currency

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/gputrain/gputrain/providers/driver"
)

// Variable is the environment variable that sets rates for all providers: "EUR=1.17@2026-11-20,
// INR=0.0119". The date is optional.
const Variable = "GPUTRAIN_USD_RATES"

// A Rate is the value of one unit of a currency.
type Rate struct {
	// Code is the currency's ISO 4217 code: "EUR".
	Code string
	// USD is the value in US dollars.
	USD float64
	// On is the date of the rate, or the name of what has set it.
	On string
}

// round are round figures, which are not kept up to date.
var round = []Rate{{"EUR", 1.10, "2026-10-01"}, {"INR", 0.0115, "2026-10-01"}, {"CNY", 0.14, "2026-10-01"}}

// Of returns the rate of a currency: the one that a provider's Config sets, if that is not 0, or
// that of the environment, or a round figure of this package. An unknown currency and malformed text are
// errors of kind driver.ErrInvalid.
func Of(code string, configured float64) (Rate, error) {
	if configured != 0 {
		return Rate{code, configured, "Config"}, nil
	}
	if code == "USD" {
		return Rate{code, 1, ""}, nil
	}
	for _, entry := range strings.FieldsFunc(os.Getenv(Variable), func(r rune) bool { return r == ',' || r == ' ' }) {
		name, value, _ := strings.Cut(entry, "=")
		value, on, _ := strings.Cut(value, "@")
		usd, err := strconv.ParseFloat(value, 64)
		if err != nil || !(usd > 0) || math.IsInf(usd, 0) || len(name) != 3 {
			return Rate{}, fmt.Errorf("%w: %s has %q; write EUR=1.17@2026-11-20", driver.ErrInvalid, Variable, entry)
		}
		if strings.EqualFold(name, code) {
			return Rate{code, usd, cmp.Or(on, Variable)}, nil
		}
	}
	for _, r := range round {
		if r.Code == code {
			return r, nil
		}
	}
	return Rate{}, fmt.Errorf("%w: the value of %s in US dollars is not known; set it in %s, as in EUR=1.17@2026-11-20", driver.ErrInvalid, code, Variable)
}

// Warning is the text for the warnings of an offer whose price was converted: Offer.Warnings.
func (r Rate) Warning() string {
	return fmt.Sprintf("its price is in %s, at $%v each (%s); %s sets another rate", r.Code, r.USD, r.On, Variable)
}
