package tensordock

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// leastUSD is the balance below which TensorDock launches nothing:
// https://dashboard.tensordock.com/api/docs.
const leastUSD = 1

// A marketplace is the older API, which alone tells the account's money.
type marketplace struct {
	*rest.Client
	login func() url.Values // a func, so that printing shows no credential
}

// newMarketplace returns a client of the older API, which other clients call once a second at most.
func newMarketplace(c Config, key, token string) (*marketplace, error) {
	api, err := rest.New(rest.Config{
		BaseURL:    c.MarketplaceEndpoint,
		HTTPClient: c.HTTPClient,
		Fault:      fault,
		Timeout:    c.RequestTimeout,
		FirstWait:  cloud.Second,
		Limit:      cloud.Limiter(1, cloud.Second, c.MarketplaceEndpoint, key),
	})
	if err != nil {
		return nil, err
	}
	api.Hide(key, token)
	return &marketplace{Client: api, login: func() url.Values { return url.Values{"api_key": {key}, "api_token": {token}} }}, nil
}

// balance returns the account's money.
func (m *marketplace) balance(ctx context.Context) (float64, error) {
	var out struct {
		Success  bool    `json:"success"`
		Balance  *signed `json:"balance"`
		Currency string  `json:"currency"`
	}
	const path = "/billing/balance"
	err := m.Do(ctx, http.MethodPost, path, m.login(), &out, rest.Safe)
	if e, refused := cloud.Answered(err); refused && e.Status < 400 { // by the API itself, of the credentials
		return 0, &driver.Error{Kind: driver.ErrAuth, Err: err, Hint: "see Config.APIKey"}
	}
	switch {
	case err != nil:
		return 0, err
	case !out.Success || out.Balance == nil:
		return 0, odd(http.MethodPost, path, "the answer has no balance")
	case out.Currency != "" && !strings.EqualFold(out.Currency, "USD"):
		return 0, odd(http.MethodPost, path, fmt.Sprintf("the balance is in %q", out.Currency))
	}
	return float64(*out.Balance), nil
}
