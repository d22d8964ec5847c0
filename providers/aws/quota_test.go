package aws

import (
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

func quotaOffer(t *testing.T, d *awsDriver, o driver.Offer) driver.Quota {
	t.Helper()
	q, err := d.Quota(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// A quota of vCPUs bounds the machines of its family and market, with those of other programs.
func TestQuota(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.foreign() // three machines of type t3.medium, of the family Standard
	f.quotas = map[string]float64{"L-DB2E81BA": 13, "L-3819A6DF": 3, "L-1216C47A": 7, "L-417A185B": 0}
	d := prepared(t, f)
	o := offer(t, d, a10g, "g5.xlarge")
	mustLaunch(t, d, request(a10g, o, 2))
	spot := a10g
	spot.Allocation = driver.Spot
	for name, tt := range map[string]struct {
		offer    driver.Offer
		machines int
		reason   string
	}{
		"on demand":  {o, 1, "Running On-Demand G and VT instances (L-DB2E81BA) in us-east-1: 13 vCPUs, of which 8 are used; a machine needs 4"},
		"spot":       {offer(t, d, spot, "g5.xlarge"), 0, "All G and VT Spot Instance Requests (L-3819A6DF) in us-east-1: 3 vCPUs, of which 0 are used; a machine needs 4"},
		"no GPU":     {offer(t, d, gputrain.Spec{}, "m7g.medium"), 1, "Running On-Demand Standard instances (L-1216C47A) in us-east-1: 7 vCPUs, of which 6 are used; a machine needs 1"},
		"new to P":   {offer(t, d, gputrain.Spec{Accelerator: accelerators.A100(accelerators.Count(8))}, "p4d.24xlarge"), 0, "Running On-Demand P instances (L-417A185B) in us-east-1: 0 vCPUs, of which 0 are used; a machine needs 96"},
		"none by it": {offer(t, d, gputrain.Spec{Accelerator: accelerators.Trainium2(accelerators.Count(16))}, "trn2.48xlarge"), 0, ""},
	} {
		want := driver.Quota{Known: tt.reason != "", Machines: tt.machines, Reason: tt.reason}
		if q := quotaOffer(t, d, tt.offer); q != want {
			t.Errorf("%s: %+v, want %+v", name, q, want)
		}
	}
	n := len(f.Records())
	quotaOffer(t, d, o)
	if len(f.Records()) != n {
		t.Error("it is asked for again")
	}
	if err := d.Terminate(t.Context(), mustLaunch(t, d, driver.Launch{Pool: cloudtest.Info("p1"), Offer: o, Query: a10g.Query(), Token: "third", Nodes: []driver.NodeRequest{{Rank: 2, Name: "p1-2", HostKey: hostKey}}})[0].ID); err != nil {
		t.Error(err)
	}
	if q := quotaOffer(t, d, o); q.Machines != 1 {
		t.Errorf("after the end of a machine there is room for %+v", q)
	}
}

func TestQuotaFamilies(t *testing.T) {
	for name, want := range map[string][2]string{
		"c7i.large": {"L-1216C47A", "L-34B43A08"}, "im4gn.large": {"L-1216C47A", "L-34B43A08"}, "gr6.4xlarge": {"L-DB2E81BA", "L-3819A6DF"},
		"g6f.large": {"L-DB2E81BA", "L-3819A6DF"}, "p4d.24xlarge": {"L-417A185B", "L-7212CCBC"}, "p5.48xlarge": {"L-417A185B", ""},
		"p6-b200.48xlarge": {"L-417A185B", ""}, "trn1.2xlarge": {"L-2C3B7624", "L-6B0D517C"}, "inf2.xlarge": {"L-1945791B", "L-B5D1601B"},
		"x2gd.medium": {"", ""}, "u-6tb1.metal": {"", ""}, "dl1.24xlarge": {"", ""}, "": {"", ""},
	} {
		onDemand, _ := quotaOf(name, false)
		spot, _ := quotaOf(name, true)
		if have := [2]string{onDemand, spot}; have != want {
			t.Errorf("%s: %v, want %v", name, have, want)
		}
	}
}

// A credential that may not ask gets ErrAuth, and an answer without a value is no quota of zero.
func TestQuotaThatIsNotTold(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.allow(8)
	d := f.open()
	o := offer(t, d, a10g, "g5.xlarge")
	f.denied["ServiceQuotasV20190624.GetServiceQuota"] = true
	_, err := d.Quota(t.Context(), o)
	is(t, err, driver.ErrAuth, "quota")
	f.denied["ServiceQuotasV20190624.GetServiceQuota"] = false
	f.Inject(fakecloud.Fault{Op: opOther, Answer: fakecloud.Reply(200, row{"Quota": row{}})})
	_, err = d.Quota(t.Context(), o)
	is(t, err, driver.ErrUnavailable, "quota")
	if q := quotaOffer(t, d, o); q.Machines != 2 {
		t.Errorf("%+v", q)
	}
}

// The pool does not try a launch that the quota forbids, and its error names the quota.
func TestPoolWithoutQuota(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.allow(3)
	_, err := gputrain.Open(t.Context(), f.config(), a10g, gputrain.WithStateDir(t.TempDir()))
	if err == nil || len(f.Records("CreateFleet")) > 0 {
		t.Fatalf("%v, after %d launches", err, len(f.Records("CreateFleet")))
	}
	cloudtestSays(t, err, driver.ErrQuota, "L-DB2E81BA", "3 vCPUs, of which 0 are used; a machine needs 4")
}
