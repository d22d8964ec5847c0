package market_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/market"
	"github.com/gputrain/gputrain/providers/driver"
)

// A provider of containers runs the image that a spec names, unless its Config names another one or it takes no login.
// A machine, on which that image then runs, is no matter of the provider's.
func TestRejectImage(t *testing.T) {
	login := market.Wants{Query: driver.Query{Image: "mine:1"}, ImageLogin: true}
	for name, tt := range map[string]struct {
		wants  market.Wants
		images *driver.Images
		kind   error
		why    string
	}{
		"a machine":      {login, nil, nil, ""},
		"none is wanted": {market.Wants{}, &driver.Images{Configured: "mine:1"}, nil, ""},
		"any":            {login, &driver.Images{Logins: true}, nil, ""},
		"the same":       {login, &driver.Images{Configured: "mine:1", Logins: true}, nil, ""},
		"another": {
			login, &driver.Images{Configured: "mine:2", Logins: true}, driver.ErrInvalid,
			"the provider's Config names the image mine:2, and the spec's Image.Docker mine:1: leave one of them empty",
		},
		"no login": {
			login, &driver.Images{NoLogin: "; set Config.RegistryAuth"}, driver.ErrUnsupported,
			"this provider takes no login for the registry of Image.Docker; set Config.RegistryAuth",
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := at("eu-1", 1)
			o.Capabilities = &driver.Capabilities{Images: tt.images}
			m := opened(&shop{offers: []driver.Offer{o}}, tt.wants)
			plan, err := m.Plan(t.Context())
			if err != nil || len(plan) != 1 || plan[0].Rejected != tt.why {
				t.Errorf("%+v, %v; want rejected since it %s", plan, err, tt.why)
			}
			found, err := m.Candidates(t.Context())
			if err != nil || (len(found.Offers) == 1) != (tt.kind == nil) || !errors.Is(found.None, tt.kind) || tt.kind != nil && !strings.Contains(found.None.Error(), tt.why) {
				t.Errorf("%+v, %v", found, err)
			}
		})
	}
}
