package currency_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/currency"
)

func TestOf(t *testing.T) {
	for name, tt := range map[string]struct {
		code       string
		configured float64
		variable   string
		want       currency.Rate
		invalid    bool
	}{
		"a round figure":     {code: "EUR", want: currency.Rate{Code: "EUR", USD: 1.10, On: "2026-10-01"}},
		"dollars":            {code: "USD", want: currency.Rate{Code: "USD", USD: 1}},
		"a Config":           {code: "EUR", configured: 1.2, variable: "EUR=1.17", want: currency.Rate{Code: "EUR", USD: 1.2, On: "Config"}},
		"the environment":    {code: "INR", variable: "EUR=1.17@2026-11-20, inr=0.012@2026-11-21", want: currency.Rate{Code: "INR", USD: 0.012, On: "2026-11-21"}},
		"without a date":     {code: "EUR", variable: "EUR=1.17", want: currency.Rate{Code: "EUR", USD: 1.17, On: currency.Variable}},
		"another currency":   {code: "SEK", variable: "SEK=0.09", want: currency.Rate{Code: "SEK", USD: 0.09, On: currency.Variable}},
		"an unknown one":     {code: "SEK", invalid: true},
		"no number":          {code: "EUR", variable: "EUR=much", invalid: true},
		"nothing":            {code: "EUR", variable: "EUR=0", invalid: true},
		"a rate of nothing":  {code: "EUR", variable: "1.17", invalid: true},
		"a negative rate":    {code: "EUR", variable: "EUR=-1", invalid: true},
		"an infinite amount": {code: "EUR", variable: "EUR=Inf", invalid: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(currency.Variable, tt.variable)
			got, err := currency.Of(tt.code, tt.configured)
			if got != tt.want || (err != nil) != tt.invalid || tt.invalid && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), currency.Variable)) {
				t.Errorf("%+v, %v; want %+v", got, err, tt.want)
			}
		})
	}
}

func TestWarning(t *testing.T) {
	const want = "its price is in EUR, at $1.1 each (2026-10-01); GPUTRAIN_USD_RATES sets another rate"
	if got := (currency.Rate{Code: "EUR", USD: 1.1, On: "2026-10-01"}).Warning(); got != want {
		t.Errorf("%q", got)
	}
}
