package providertest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"

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
		// Each call is repeated with pauses, so they are made at the same time.
		var wg sync.WaitGroup
		var mu sync.Mutex
		for _, call := range []func() error{
			func() error { _, err := p.List(c.Context(), ""); return err },
			func() error { return p.Terminate(c.Context(), "no-such-machine") },
			func() error { return p.Release(c.Context(), p.now()) },
			func() (err error) {
				for _, one := range p.Offers(c.Context(), driver.Query{}) {
					err = errors.Join(err, one)
				}
				return err
			},
		} {
			wg.Go(func() {
				err := call()
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			})
		}
		wg.Wait()
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
