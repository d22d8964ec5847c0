package sim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/localnet"
	"github.com/gputrain/gputrain/internal/secretref"
	"github.com/gputrain/gputrain/providers/driver"
)

// name is the provider's short name.
const name = "sim"

// Config rents from a simulated cloud. The zero value works: the whole program shares its
// cloud, which has no faults.
type Config struct {
	// Cloud is the cloud to rent from. Nil means the one at Endpoint, or else the program's
	// own: see [Default].
	Cloud *Cloud
	// Endpoint is the address of a cloud that another program serves, from [Cloud.Serve]. It is
	// ignored if Cloud is set.
	Endpoint string
	// Account owns the machines. One account does not see the things of another. Empty means
	// "main".
	Account string
	// Token is the credential, if the cloud requires one: Options.Token. It may be a reference.
	Token driver.Secret
}

// Default returns the cloud of a zero Config. It has the zero Options; the first call makes it.
func Default() *Cloud { return defaultCloud() }

var defaultCloud = sync.OnceValue(func() *Cloud { return New(Options{}) })

// Name returns "sim".
func (Config) Name() string { return name }

// Open returns a driver. It checks that the cloud answers and accepts the token.
func (c Config) Open(ctx context.Context) (driver.Driver, error) {
	if err := ctx.Err(); err != nil {
		return nil, fail("open", err)
	}
	account := c.Account
	if account == "" {
		account = "main"
	}
	credential, err := secretref.Resolve(ctx, string(c.Token))
	if err != nil {
		return nil, &driver.Error{Provider: name, Op: "open", Kind: driver.ErrAuth, Err: fmt.Errorf("the token: %w", err)}
	}
	token := driver.Secret(credential)
	base := request{Account: account, Client: clientName()}
	d := &simDriver{opened: time.Now(), when: map[string]time.Time{}, ended: map[string]bool{}}
	switch {
	case c.Cloud != nil:
		d.cloud = c.Cloud
	case c.Endpoint == "":
		d.cloud = Default()
	default:
		remote, err := newRemote(c.Endpoint, token)
		if err != nil {
			return nil, fail("open", err)
		}
		d.send, d.done, d.local = remote.call, remote.close, localnet.IsURL(c.Endpoint)
	}
	if d.cloud != nil {
		cloud := d.cloud
		d.send = func(ctx context.Context, r request) (answer, error) { return cloud.call(ctx, token, r) }
	}
	d.base = base
	a, err := d.call(ctx, request{Op: OpOpen})
	if err != nil {
		return nil, fail("open", err)
	}
	if a.Account == nil {
		return nil, fail("open", errGarbage)
	}
	d.account = *a.Account
	if d.cloud == nil {
		return d, nil
	}
	return &dialer{d}, nil
}

var clients struct {
	sync.Mutex
	n int
}

// clientName distinguishes a driver of this program from the others in a cloud's log.
func clientName() string {
	clients.Lock()
	defer clients.Unlock()
	clients.n++
	return fmt.Sprintf("%s/%d", process(), clients.n)
}
