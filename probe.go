package gputrain

import (
	"bytes"
	"context"
)

// probe has the driver learn what the machine is, where it can learn that only so.
func (n *poolNode) probe(ctx context.Context) error {
	d, ok := n.p.driver.(Prober)
	if !ok {
		return nil
	}
	var out bytes.Buffer
	if err := n.client.Exec(ctx, d.Probe(n.inst), nil, &out, nil); err != nil {
		return n.explain(ctx, "probe", err)
	}
	has, err := d.Probed(n.inst, n.p.spec, out.String())
	if err != nil {
		return err
	}
	n.p.mu.Lock()
	n.inst.Offer.Accelerator = has
	n.p.mu.Unlock()
	return nil
}

// advice is what the driver knows to do about a machine that cannot be reached, or "".
func (n *poolNode) advice(kind error) string {
	if d, ok := n.p.driver.(Prober); ok {
		return d.Advise(kind)
	}
	return ""
}
