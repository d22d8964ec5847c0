package gputrain

import (
	"context"
	"fmt"
	"net"
	"strings"
)

// probe has the driver learn what the machine is, where it can learn that only so.
func (n *poolNode) probe(ctx context.Context) error {
	m := n.member()
	d, ok := m.driver.(Prober)
	if !ok {
		return nil
	}
	out, _, err := n.questions.answer(ctx, n.client, d.Probe(m.own(n.inst)))
	if err != nil {
		return n.explain(ctx, "probe", err)
	}
	has, err := d.Probed(m.own(n.inst), n.p.spec, out)
	if err != nil {
		return err
	}
	n.p.mu.Lock()
	n.inst.Offer.Accelerator = has
	n.p.mu.Unlock()
	return nil
}

// findAddress has the machine say by what address other nodes reach it, where only it
// knows that.
func (n *poolNode) findAddress(ctx context.Context) error {
	m := n.member()
	d, ok := m.driver.(AddressFinder)
	if !ok {
		return nil
	}
	text := d.FindAddress(m.own(n.inst))
	if text == "" {
		return nil
	}
	out, _, err := n.questions.answer(ctx, n.client, text)
	if err != nil {
		return n.explain(ctx, "find the private address of", err)
	}
	addr := strings.TrimSpace(out)
	if addr == "" {
		return nil
	}
	if net.ParseIP(addr) == nil {
		return &Error{Provider: n.provider(), Op: "find the private address of " + n.name, Kind: ErrUnsupported, Err: fmt.Errorf("it says %.100q, which is no IP address", addr)}
	}
	n.p.mu.Lock()
	n.inst.PrivateAddr = addr
	n.p.mu.Unlock()
	return nil
}

// advice is what to do about a machine that cannot be reached, or "".
func (n *poolNode) advice(kind error) string {
	if d, ok := n.member().driver.(Prober); ok {
		return d.Advise(kind)
	}
	if !n.caps().Adopts || n.client != nil && n.client.Generation() > 0 {
		return ""
	}
	at := n.inst.SSH
	host, port, err := net.SplitHostPort(at.Addr)
	if err != nil {
		return ""
	}
	try := fmt.Sprintf("ssh -p %s %s@%s", port, at.User, host)
	switch kind {
	case ErrAuth:
		return fmt.Sprintf("set the host's User and KeyFile to what %q lets in, or add the key to ~/.ssh/authorized_keys there", try)
	case ErrUnavailable:
		return fmt.Sprintf("see whether %q gets there from here: the host may be off or behind a firewall, its SSH server stopped or at another port", try)
	}
	return ""
}
