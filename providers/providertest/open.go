package providertest

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/gputrain/gputrain/providers/driver"
)

func openChecks() []check {
	return []check{
		{"open contacts nothing before", []string{"Calls"}, openNothingBefore},
		{"open without a key", []string{"MissingKey"}, openMissingKey},
		{"open without a key for the public offers", []string{"MissingKey"}, openPublic},
		{"open with a wrong key", []string{"WrongKey"}, openWrongKey},
		{"open leaves the config as it is", nil, openConfigUnchanged},
		{"capabilities never change", nil, openCapabilities},
	}
}

func openNothingBefore(c *trial) {
	copied := c.h.Provider
	_ = copied.Name()
	_ = fmt.Sprintf("%+v %#v", copied, copied)
	if n := c.h.Calls(AnyOp); n > 0 {
		c.Errorf("%d calls before Open: Provider is a plain value, and nothing is contacted until Open", n)
	}
	if copied.Name() == "" || strings.ToLower(copied.Name()) != copied.Name() {
		c.Errorf("Provider.Name is %q; want a short name such as \"vastai\"", copied.Name())
	}
	c.open()
}

func openMissingKey(c *trial) {
	c.Setenv(c.h.MissingKey.Names, "")
	d, err := c.h.MissingKey.Provider.Open(c.Context())
	if err == nil {
		d.Close()
	}
	if c.failure("Provider.Open without a key", err, driver.ErrAuth) && !strings.Contains(err.Error(), c.h.MissingKey.Names) {
		c.Errorf("Provider.Open without a key returned %q, which does not name %s", err, c.h.MissingKey.Names)
	}
}

// A driver.PublicProvider shows its offers without a key, and not if there is one.
func openPublic(c *trial) {
	c.Setenv(c.h.MissingKey.Names, "")
	public, ok := c.h.MissingKey.Provider.(driver.PublicProvider)
	if !ok || c.h.Members != nil { // a provider that is made of others is what they are
		return
	}
	d, err := public.OpenPublic(c.Context())
	if err != nil {
		c.Fatalf("PublicProvider.OpenPublic without a key: %v", err)
	}
	defer d.Close()
	if len(c.offers(d, c.h.Spec.Query())) == 0 {
		c.Error("Driver.Offers has nothing for Harness.Spec without a key, and the provider is a driver.PublicProvider")
	}
	for _, p := range []driver.Provider{c.h.Provider, c.h.WrongKey} {
		if keyed, ok := p.(driver.PublicProvider); ok {
			if d, err := keyed.OpenPublic(c.Context()); err == nil {
				d.Close()
				c.Error("PublicProvider.OpenPublic succeeds although there is a key: a wrong key would not be seen")
			}
		}
	}
}

// A wrong key fails Open, if Open calls the API, or else the first call.
func openWrongKey(c *trial) {
	d, err := c.h.WrongKey.Open(c.Context())
	if err == nil {
		defer d.Close()
		_, err = d.List(c.Context(), "")
	}
	c.failure("a wrong key, by Provider.Open and then Driver.List,", err, driver.ErrAuth)
}

func openConfigUnchanged(c *trial) {
	before := picture(reflect.ValueOf(c.h.Provider))
	p := c.prepared()
	got := p.launch(1)
	if err := p.Terminate(c.Context(), ids(got)...); err != nil {
		c.Errorf("Driver.Terminate: %v", err)
	}
	if after := picture(reflect.ValueOf(c.h.Provider)); after != before {
		c.Errorf("Provider is a plain value that Open and its driver leave as it is; it was changed")
	}
}

// picture returns the content of a config. Pointers count by their address, not by the
// data behind them, such as the user's transport.
func picture(v reflect.Value) string {
	var b strings.Builder
	var draw func(v reflect.Value)
	draw = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				b.WriteString(v.Type().Field(i).Name + ":")
				draw(v.Field(i))
			}
		case reflect.Slice, reflect.Array:
			for i := range v.Len() {
				draw(v.Index(i))
			}
		case reflect.Map:
			fmt.Fprintf(&b, "%v", v) // sorted by key
		case reflect.Interface:
			if !v.IsNil() {
				draw(v.Elem())
			}
		case reflect.String:
			fmt.Fprintf(&b, "%q", v.String()) // even of a Secret
		case reflect.Pointer, reflect.Func, reflect.Chan, reflect.UnsafePointer:
			fmt.Fprintf(&b, "%x", v.Pointer())
		default:
			fmt.Fprintf(&b, "%v", v)
		}
		b.WriteString(";")
	}
	draw(v)
	return b.String()
}

func openCapabilities(c *trial) {
	p := c.prepared()
	p.launch(1)
	if after := p.Capabilities(); !reflect.DeepEqual(after, p.caps) {
		c.Errorf("Driver.Capabilities never changes: it was %+v and is %+v", p.caps, after)
	}
	if other := c.open().Capabilities(); !reflect.DeepEqual(other, p.caps) {
		c.Errorf("two drivers of one Provider have Capabilities %+v and %+v", p.caps, other)
	}
	if p.caps.Adopts {
		return
	}
	if p.caps.EndsBilling == "" {
		c.Error("Capabilities.EndsBilling must name the verb that ends billing")
	}
	if p.caps.Account == "" {
		c.Error("Capabilities.Account must name the account: things of one account are not looked for in another")
	}
}
