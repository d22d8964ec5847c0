package gputrain_test

import (
	"context"
	"fmt"
	"log"
	"reflect"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/local"
)

// A pool calls its Driver in this order. A provider's own tests can do so too.
func ExampleDriver() {
	ctx := context.Background()
	d, err := local.Config{}.Open(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()

	pool := driver.PoolInfo{
		ID: "example", Owner: "me",
		AuthorizedKey: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPm3MKrm+mXPEjE9u0Nd1yWJ8zx8FZpoIGWQGVFfKJEO",
	}
	d.Prepare(ctx, pool)
	defer d.Release(ctx, pool)
	for offer := range d.Offers(ctx, driver.Query{}) {
		got, err := d.Launch(ctx, driver.Launch{Pool: pool, Offer: offer, Nodes: []driver.NodeRequest{{Rank: 0, Name: "example-0"}}})
		fmt.Println(len(got), err)
		fmt.Println(d.Terminate(ctx, got[0].ID)) // terminating twice is a success too
		now, _ := d.Describe(ctx, got[0].ID)
		fmt.Println(now[0].State)
		break
	}
	left, err := d.List(ctx, pool.ID)
	fmt.Println(len(left), err)
	// Output:
	// 1 <nil>
	// <nil>
	// terminated
	// 0 <nil>
}

// A provider's capabilities decide what a pool asks of it.
func ExampleCapabilities() {
	d, err := local.Config{}.Open(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	caps := d.Capabilities()
	fmt.Println("free:", caps.Free, "spot:", caps.Spot, "host keys:", caps.HostKeys)
	// Output: free: true spot: false host keys: injected
}

func ExampleOffer() {
	o := gputrain.Offer{Provider: "acme", InstanceType: "gpu.large", Region: "eu-1", HourlyUSD: driver.USD(1.25), Spot: true}
	fmt.Println(o.InstanceType, "in", o.Region, "at", o.HourlyUSD)
	// Output: gpu.large in eu-1 at $1.25
}

// An Instance says where its SSH server is and which host keys it has.
func ExampleInstance() {
	in := driver.Instance{
		ID: "i-42", Name: "digits-0", State: driver.InstanceRunning, PublicAddr: "203.0.113.7",
		SSH: driver.Endpoint{Addr: "203.0.113.7:40022", User: "root", HostKeys: []string{"SHA256:jOzoyCtCFEPeHYjYxxSFFzvBt4yhpyTHtSmlQKkqrF8"}},
	}
	fmt.Println(in.ID, "is", in.State, "at", in.SSH.Addr)
	// Output: i-42 is running at 203.0.113.7:40022
}

// acmeConfig is the Config of a provider of one's own.
type acmeConfig struct {
	APIKey driver.Secret
	Region string
}

// The guardian of a pool, another process of the program, can read it.
var _ driver.Provider = driver.RegisterConfig(acmeConfig{})

func (acmeConfig) Name() string { return "acme" }

func (acmeConfig) Open(context.Context) (driver.Driver, error) {
	return nil, &driver.Error{Provider: "acme", Op: "open", Kind: driver.ErrUnsupported}
}

func ExampleRegisterConfig() {
	var provider driver.Provider = acmeConfig{APIKey: "env://ACME_KEY"}
	t, ok := driver.RegisteredConfig(driver.ConfigName(reflect.TypeOf(provider)))
	fmt.Println(t, ok)
	// Output: gputrain_test.acmeConfig true
}
