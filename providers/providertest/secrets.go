package providertest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"

	"github.com/gputrain/gputrain/providers/driver"
)

func secretChecks() []check {
	return []check{
		{"keys are never printed", nil, secretsPrinted},
		{"keys are never in errors", []string{"Fault", "Secrets"}, secretsInErrors},
	}
}

// Host keys made by the suite are secret too.
func secretsPrinted(c *trial) {
	p := c.prepared()
	got := p.running(p.launch(1))
	list, err := p.List(c.Context(), "")
	for what, v := range map[string]any{
		"the provider": c.h.Provider, "the driver": p.Driver, "Capabilities": p.caps, "PoolInfo.Made": p.now().Made,
		"Offers": c.offers(p, c.h.Spec.Query()), "an Instance": got, "List": list, "an error": err,
	} {
		c.printed(what, v)
	}
}

// printed looks for secrets in every printed form of a value.
func (c *trial) printed(what string, v any) {
	c.Helper()
	values := []any{v}
	for r := reflect.ValueOf(v); r.Kind() == reflect.Pointer && !r.IsNil(); r = r.Elem() {
		values = append(values, r.Elem()) // fmt prints the value in a reflect.Value
	}
	for _, v := range values {
		for _, verb := range []string{"%v", "%+v", "%#v"} {
			c.unprinted(what+" by "+verb, fmt.Sprintf(verb, v))
		}
	}
	if text, err := json.Marshal(v); err == nil {
		c.unprinted(what+" as JSON", string(text))
	}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("", "value", v)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("", "value", v)
	c.unprinted(what+" in a log", log.String())
}

func secretsInErrors(c *trial) {
	p := c.prepared()
	var errs []error
	for _, kind := range []Kind{Failed, Cut, HTML, RateLimited} {
		remove := c.h.Fault(AnyOp, Fault{Kind: kind, Times: -1})
		if remove == nil {
			continue
		}
		_, err := p.List(c.Context(), "")
		errs = append(errs, err, p.Terminate(c.Context(), "no-such-machine"), p.Release(c.Context(), p.now()))
		for _, err := range p.Offers(c.Context(), driver.Query{}) {
			errs = append(errs, err)
		}
		remove()
	}
	if errors.Join(errs...) == nil {
		c.Fatalf("no error: the fake's Fault hits nothing; say why in Harness.Without[%q]", c.check)
	}
	for _, err := range errs {
		c.printed("an error", err)
		for ; err != nil; err = errors.Unwrap(err) {
			c.printed("an error", err)
		}
	}
}
