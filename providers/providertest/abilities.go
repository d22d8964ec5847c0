package providertest

import (
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/gputrain/gputrain"
)

// What only some drivers can do, by the interfaces that they have beside Driver.
func abilityChecks() []check {
	return []check{
		{"dial of what is gone", nil, dialGone},
		{"shell text for machines", nil, shellText},
		{"lease that is marked", nil, markLease},
		{"resume of what runs, and of what is gone", nil, resume},
	}
}

func dialGone(c *trial) {
	p := c.prepared()
	in := p.running(p.launch(1))[0]
	if err := c.eventually(patience, func() error { return p.reach(in) }); err != nil {
		c.Errorf("%s is not reached: %v", in.ID, err)
	}
	d, ok := p.Driver.(gputrain.Dialer)
	if err := p.Terminate(c.Context(), in.ID); err != nil {
		c.Fatalf("Driver.Terminate: %v", err)
	}
	if !ok {
		return
	}
	if nc, err := d.Dial(c.Context(), in); !c.failure("Dialer.Dial of a machine that is gone", err) {
		nc.Close()
	}
}

func shellText(c *trial) {
	p := c.prepared()
	in := p.running(p.launch(1))[0]
	texts := map[string]string{}
	if d, ok := p.Driver.(gputrain.SelfDestructor); ok {
		if texts["SelfDestruct"] = d.SelfDestruct(in); strings.TrimSpace(texts["SelfDestruct"]) == "" {
			c.Error("SelfDestructor.SelfDestruct is empty: a driver whose machines cannot end themselves does not have the method")
		}
	}
	if d, ok := p.Driver.(gputrain.PreemptionWatcher); ok {
		texts["PreemptionWatch"] = d.PreemptionWatch(in)
	}
	if d, ok := p.Driver.(gputrain.AddressFinder); ok {
		texts["FindAddress"] = d.FindAddress(in)
	}
	for method, text := range texts {
		c.unprinted(method, text)
		sh, err := exec.LookPath("sh")
		if err != nil {
			continue // as on Windows, whose programs rent all the same
		}
		if out, err := exec.Command(sh, "-n", "-c", text).CombinedOutput(); err != nil {
			c.Errorf("%s is no text for a POSIX shell: %s\n%s", method, out, text)
		}
	}
}

func markLease(c *trial) {
	p := c.prepared()
	d, ok := p.Driver.(gputrain.LeaseMarker)
	if !ok {
		return
	}
	got := ids(p.launch(1))
	until := time.Now().Add(20 * time.Minute).Truncate(time.Second)
	for _, until := range []time.Time{until, until.Add(time.Minute)} {
		if err := d.MarkLease(c.Context(), p.now(), until, got...); err != nil {
			c.Fatalf("LeaseMarker.MarkLease: %v", err)
		}
		c.listed(c.open(), p.info.ID, func(list []gputrain.Resource) error {
			for _, r := range list {
				if r.ID == got[0] && r.LeaseUntil.Equal(until) {
					return nil
				}
			}
			return fmt.Errorf("%s has not LeaseUntil %v, which MarkLease noted: %+v", got[0], until, list)
		})
	}
}

func resume(c *trial) {
	p := c.prepared()
	d, ok := p.Driver.(gputrain.Resumer)
	if !ok {
		return
	}
	got := p.running(p.launch(2))
	if err := p.Terminate(c.Context(), ids(got[1:])...); err != nil {
		c.Fatalf("Driver.Terminate: %v", err)
	}
	for range 2 {
		if err := d.Resume(c.Context(), p.now(), ids(got)...); err != nil {
			c.Errorf("Resumer.Resume is idempotent, and leaves out machines that are gone; it says %v", err)
		}
	}
	now := p.describe(ids(got)...)
	if fmt.Sprint(now[0].SSH.HostKeys) != fmt.Sprint(got[0].SSH.HostKeys) {
		c.Errorf("after Resumer.Resume: %+v; want the host keys %q", now[0], got[0].SSH.HostKeys)
	}
	for _, in := range now[1:] {
		if in.State != gputrain.InstanceTerminated {
			c.Errorf("after Resumer.Resume: %+v, which was gone", in)
		}
	}
	if err := p.reach(now[0]); err != nil {
		c.Errorf("after Resumer.Resume: %v", err)
	}
}
