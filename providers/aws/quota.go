package aws

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/driver"
)

// quotaFor is the time for which answers about quotas are used.
const quotaFor = time.Minute

// A quotaFamily is a group of instance types that share a quota of vCPUs, by its codes in Service
// Quotas.
type quotaFamily struct {
	name           string
	families       []string // the letters before a type's generation
	onDemand, spot string
}

var quotaFamilies = []quotaFamily{
	{"Standard", strings.Fields("a c d h i im is m r t z"), "L-1216C47A", "L-34B43A08"},
	{"G and VT", strings.Fields("g gr vt"), "L-DB2E81BA", "L-3819A6DF"},
	{"P", strings.Fields("p"), "L-417A185B", "L-7212CCBC"},
	{"Trn", strings.Fields("trn"), "L-2C3B7624", "L-6B0D517C"},
	{"Inf", strings.Fields("inf"), "L-1945791B", "L-B5D1601B"},
}

var typeForm = regexp.MustCompile(`^([a-z]+)([0-9]+)[a-z0-9-]*\.`)

// quotaOf returns the quota that bounds an instance type in a market: its code and its name. It
// returns "" if the code is not known: spot P5 and later have quotas of their own.
func quotaOf(instanceType string, spot bool) (code, name string) {
	m := typeForm.FindStringSubmatch(instanceType)
	if m == nil {
		return "", ""
	}
	for _, f := range quotaFamilies {
		switch {
		case !slices.Contains(f.families, m[1]):
		case !spot:
			return f.onDemand, "Running On-Demand " + f.name + " instances"
		case f.name != "P" || len(m[2]) == 1 && m[2] < "5":
			return f.spot, "All " + f.name + " Spot Instance Requests"
		}
	}
	return "", ""
}

// quotas are the account's bounds of vCPUs in the region, by Service Quotas, and the vCPUs that its
// machines use.
type quotas struct {
	api       *client
	instances *instances

	mu      sync.Mutex // held during requests
	limits  map[string]quotaLimit
	used    map[string]float64 // vCPUs by the quota's code
	usedAt  time.Time
	typical map[string]float64 // vCPUs by instance type
}

// A quotaLimit is a quota as it was told at a time.
type quotaLimit struct {
	known bool
	vcpus float64
	at    time.Time
}

// of returns how many more machines of an offer the account may have.
func (q *quotas) of(ctx context.Context, o driver.Offer) (driver.Quota, error) {
	code, name := quotaOf(o.InstanceType, o.Spot)
	if code == "" || o.VCPUs <= 0 {
		return driver.Quota{}, nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	limit, err := q.limit(ctx, code)
	if err != nil || !limit.known {
		return driver.Quota{}, err
	}
	if err := q.count(ctx); err != nil {
		return driver.Quota{}, err
	}
	used := q.used[code]
	return driver.Quota{
		Known: true, Machines: int(math.Floor(max(limit.vcpus-used, 0) / o.VCPUs)),
		Reason: fmt.Sprintf("%s (%s) in %s: %g vCPUs, of which %g are used; a machine needs %g", name, code, q.api.region, limit.vcpus, used, o.VCPUs),
	}, nil
}

// limit asks Service Quotas for a quota. An account may have none by a code.
func (q *quotas) limit(ctx context.Context, code string) (quotaLimit, error) {
	if l, ok := q.limits[code]; ok && time.Since(l.at) < quotaFor {
		return l, nil
	}
	var out struct {
		Quota struct{ Value *float64 }
	}
	err := jsonCall(ctx, q.api.quotas, "ServiceQuotasV20190624.GetServiceQuota", map[string]string{"ServiceCode": "ec2", "QuotaCode": code}, &out)
	l := quotaLimit{at: time.Now()}
	switch {
	case isCode(err, "NoSuchResourceException"):
	case err != nil:
		return l, err
	case out.Quota.Value == nil:
		return l, fmt.Errorf("GetServiceQuota: %w: the answer has no value", rest.ErrAnswer)
	default:
		l.known, l.vcpus = true, *out.Quota.Value
	}
	q.limits[code] = l
	return l, nil
}

// count sums the vCPUs of the account's machines in the region, of any program.
func (q *quotas) count(ctx context.Context) error {
	if q.used != nil && time.Since(q.usedAt) < quotaFor {
		return nil
	}
	at := time.Now()
	running, err := q.instances.find(ctx, filter("instance-state-name", "pending", "running"))
	if err != nil {
		return err
	}
	if err := q.learn(ctx, running); err != nil {
		return err
	}
	q.used, q.usedAt = map[string]float64{}, at
	for _, in := range running {
		name := string(in.InstanceType)
		if code, _ := quotaOf(name, in.InstanceLifecycle == types.InstanceLifecycleTypeSpot); code != "" && in.InstanceLifecycle != types.InstanceLifecycleTypeCapacityBlock {
			q.used[code] += q.typical[name]
		}
	}
	return nil
}

// learn looks up the vCPUs of the types of machines. Quotas count those of the type, whatever a
// machine's options say.
func (q *quotas) learn(ctx context.Context, running []types.Instance) error {
	var names []string
	for _, in := range running {
		name := string(in.InstanceType)
		if _, known := q.typical[name]; !known && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for some := range slices.Chunk(names, idsPerCall) {
		pages := ec2.NewDescribeInstanceTypesPaginator(q.api.ec2, &ec2.DescribeInstanceTypesInput{
			MaxResults: sdk.Int32(typesPerPage), Filters: []types.Filter{filter("instance-type", some...)},
		})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return err
			}
			for _, t := range page.InstanceTypes {
				if t.VCpuInfo != nil {
					q.typical[string(t.InstanceType)] = float64(sdk.ToInt32(t.VCpuInfo.DefaultVCpus))
				}
			}
		}
	}
	return nil
}

// changed makes the next question count the machines again.
func (q *quotas) changed() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.used = nil
}
