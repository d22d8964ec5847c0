package market

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/gputrain/gputrain/internal/localnet"
	"github.com/gputrain/gputrain/providers/driver"
)

// Dial connects to a machine's SSH server, by its driver's Dial or by its address. If a cloud reports that a rented
// machine is at this computer, or at an address that only this computer reaches, Dial fails.
func Dial(ctx context.Context, provider string, d driver.Driver, caps driver.Capabilities, inst driver.Instance) (net.Conn, error) {
	if special, ok := d.(driver.Dialer); ok {
		return special.Dial(ctx, inst)
	}
	direct := net.Dialer{Timeout: 10 * time.Second}
	if caps.Adopts || caps.LocalAddresses {
		return direct.DialContext(ctx, "tcp", inst.SSH.Addr)
	}
	nc, err := localnet.Dial(ctx, direct, inst.SSH.Addr)
	if errors.Is(err, localnet.ErrLocal) {
		err = fmt.Errorf("%s reports that instance %s has its SSH server at %s: %w; nothing was sent, and the machine is given up", provider, inst.ID, inst.SSH.Addr, err)
	}
	return nc, err
}
