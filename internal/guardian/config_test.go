package guardian

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"github.com/gputrain/gputrain/providers/driver"
)

// A stub is a provider that nothing rents from.
type stub struct {
	Key    driver.Secret
	Places []string
	Nested struct{ Keys map[string]driver.Secret }
	Any    any
	Func   func()
	hidden int
}

func (stub) Name() string { return "stub" }

func (stub) Open(context.Context) (driver.Driver, error) {
	return nil, errors.New("it cannot be opened")
}

var _ = driver.RegisterConfig(stub{})

// A stranger is a provider of a type that is not registered.
type stranger struct{ stub }

func TestEncode(t *testing.T) {
	p := stub{Key: "sk-1", Places: []string{"a", ""}}
	p.Nested.Keys = map[string]driver.Secret{"k": "sk-2"}
	c, err := Encode(p)
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Decode()
	if err != nil || !reflect.DeepEqual(got, p) {
		t.Errorf("%+v, %v", got, err)
	}
	if text := fmt.Sprintf("%+v %v", Job{Providers: []Config{c}}, got); strings.Contains(text, "sk-") {
		t.Errorf("a job prints as %s", text)
	}
	for says, p := range map[string]driver.Provider{
		"Config.Any is a interface {}":     stub{Any: 1},
		"Config.Func is a func()":          stub{Func: func() {}},
		"Config.hidden is not exported":    stub{hidden: 1},
		"is not registered":                stranger{},
		"*guardian.stub is not registered": &stub{},
	} {
		if _, err := Encode(p); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v; want %q", p, err, says)
		}
	}
	for _, bad := range []Config{
		{Type: "no.Config"}, {Type: c.Type, Fields: map[string]cbor.RawMessage{"Key": {0xff}}}, {Type: c.Type, Fields: map[string]cbor.RawMessage{"Age": {0}}},
	} {
		if p, err := bad.Decode(); err == nil {
			t.Errorf("%+v is decoded as %+v", bad, p)
		}
	}
}
