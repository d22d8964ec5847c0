package providertest

import (
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// optionalChecks returns the checks of the interfaces that only some drivers have beside Driver.
func optionalChecks() []check {
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
	if err := c.eventually(eventTimeout, func() error { return p.reach(in) }); err != nil {
		c.Errorf("%s is not reached: %v", in.ID, err)
	}
	d, ok := p.Driver.(driver.Dialer)
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
	d, ok := p.Driver.(driver.Scripter)
	if !ok {
		return
	}
	scripts := d.Scripts(in)
	if (scripts.Probe == "") != (scripts.Probed == nil) {
		c.Error("Scripts has only one of Probe and Probed")
	}
	for method, text := range map[string]string{
		"SelfDestruct": scripts.SelfDestruct, "PreemptionWatch": scripts.PreemptionWatch, "FindAddress": scripts.FindAddress, "Probe": scripts.Probe,
	} {
		if text == "" {
			continue
		}
		if strings.TrimSpace(text) == "" {
			c.Errorf("Scripts.%s has only blanks: a missing script is an empty text", method)
		}
		c.unprinted(method, text)
		sh, err := exec.LookPath("sh")
		if err != nil {
			continue // for example on Windows, where programs can rent too
		}
		if out, err := exec.Command(sh, "-n", "-c", text).CombinedOutput(); err != nil {
			c.Errorf("%s is not a script for a POSIX shell: %s\n%s", method, out, text)
		}
	}
}

func markLease(c *trial) {
	p := c.prepared()
	d, ok := p.Driver.(driver.LeaseMarker)
	if !ok {
		return
	}
	got := ids(p.launch(1))
	until := time.Now().Add(20 * time.Minute).Truncate(time.Second)
	for _, until := range []time.Time{until, until.Add(time.Minute)} {
		if err := d.MarkLease(c.Context(), p.now(), until, got...); err != nil {
			c.Fatalf("LeaseMarker.MarkLease: %v", err)
		}
		c.listed(c.open(), p.info.ID, func(list []driver.Resource) error {
			for _, r := range list {
				if r.ID == got[0] && r.LeaseUntil.Equal(until) {
					return nil
				}
			}
			return fmt.Errorf("%s lacks LeaseUntil %v, which MarkLease recorded: %+v", got[0], until, list)
		})
	}
}

func resume(c *trial) {
	p := c.prepared()
	d, ok := p.Driver.(driver.Resumer)
	if !ok {
		return
	}
	got := p.running(p.launch(2))
	if err := p.Terminate(c.Context(), ids(got[1:])...); err != nil {
		c.Fatalf("Driver.Terminate: %v", err)
	}
	for range 2 {
		if err := d.Resume(c.Context(), p.now(), ids(got)...); err != nil {
			c.Errorf("Resumer.Resume is idempotent, and skips machines that are gone; it returned %v", err)
		}
	}
	now := p.describe(ids(got)...)
	if fmt.Sprint(now[0].SSH.HostKeys) != fmt.Sprint(got[0].SSH.HostKeys) {
		c.Errorf("after Resumer.Resume: %+v; want the host keys %q", now[0], got[0].SSH.HostKeys)
	}
	for _, in := range now[1:] {
		if in.State != driver.InstanceTerminated {
			c.Errorf("after Resumer.Resume: %+v, which was gone", in)
		}
	}
	if err := p.reach(now[0]); err != nil {
		c.Errorf("after Resumer.Resume: %v", err)
	}
}
