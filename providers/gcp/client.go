package gcp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	compute "cloud.google.com/go/compute/apiv1"
	"cloud.google.com/go/compute/apiv1/computepb"
	"github.com/googleapis/gax-go/v2"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/iterator"
	"google.golang.org/api/option"
	"google.golang.org/protobuf/proto"

	"github.com/gputrain/gputrain/internal/rest"
)

// A client makes the API's calls: one method for each call, without waiting for effects and
// without policy. Every call may be repeated: calls that change something carry a request ID,
// so that Google performs them once.
type client struct {
	project   string
	transport *transport
	billing   *rest.Client

	instances    *compute.InstancesClient
	machines     *compute.MachineTypesClient
	accelerators *compute.AcceleratorTypesClient
	images       *compute.ImagesClient
	regions      *compute.RegionsClient
	disks        *compute.DisksClient
	firewalls    *compute.FirewallsClient
	zoneOps      *compute.ZoneOperationsClient
	globalOps    *compute.GlobalOperationsClient
	projects     *compute.ProjectsClient
}

func newClient(ctx context.Context, cfg Config, base http.RoundTripper, id *identity) (*client, error) {
	t := &transport{base: base, id: id}
	hc := &http.Client{Transport: t, CheckRedirect: stay, Timeout: cfg.RequestTimeout} // bounds one attempt; gax.WithTimeout bounds all
	c := &client{project: cfg.ProjectID, transport: t}
	var err error
	if c.billing, err = rest.New(rest.Config{BaseURL: cfg.billing(), HTTPClient: hc, Timeout: cfg.RequestTimeout, Attempts: 2, Fault: billingFault}); err != nil {
		return nil, fmt.Errorf("reading Endpoint: %w", err)
	}
	t.hide = c.billing.Hide
	// With an HTTP client given, Google's client looks for neither credentials nor an address.
	opts := []option.ClientOption{option.WithEndpoint(cfg.compute()), option.WithHTTPClient(hc)}
	// Their Close would do nothing: the connections belong to base.
	var errs [10]error
	c.instances, errs[0] = compute.NewInstancesRESTClient(ctx, opts...)
	c.machines, errs[1] = compute.NewMachineTypesRESTClient(ctx, opts...)
	c.accelerators, errs[2] = compute.NewAcceleratorTypesRESTClient(ctx, opts...)
	c.images, errs[3] = compute.NewImagesRESTClient(ctx, opts...)
	c.regions, errs[4] = compute.NewRegionsRESTClient(ctx, opts...)
	c.disks, errs[5] = compute.NewDisksRESTClient(ctx, opts...)
	c.firewalls, errs[6] = compute.NewFirewallsRESTClient(ctx, opts...)
	c.zoneOps, errs[7] = compute.NewZoneOperationsRESTClient(ctx, opts...)
	c.globalOps, errs[8] = compute.NewGlobalOperationsRESTClient(ctx, opts...)
	c.projects, errs[9] = compute.NewProjectsRESTClient(ctx, opts...)
	return c, errors.Join(errs[:]...)
}

// stay follows redirects of reads, and only within their server: no other server may get the
// token.
func stay(req *http.Request, via []*http.Request) error {
	first := via[0]
	if first.Method != http.MethodGet || req.URL.Scheme != first.URL.Scheme || req.URL.Host != first.URL.Host || len(via) >= 10 {
		return http.ErrUseLastResponse
	}
	return nil
}

// A retryer repeats failures that neither Google's client nor a gax.Retryer repeats: a refusal
// for a reason that passes, whatever its status, and a call without an answer. It waits at
// least as long as Retry-After asks for, and remembers whether an attempt may have taken
// effect.
type retryer struct {
	gax.Backoff
	attempts int
	open     bool // an attempt may have created something
	lost     bool // such an attempt got no answer
}

const maxAttempts = 5

func newRetryer() *retryer {
	return &retryer{Backoff: gax.Backoff{Initial: 2 * second, Max: 30 * second, Multiplier: 2}}
}

// again returns the option of a call that is repeated.
func again() gax.CallOption {
	return gax.WithRetry(func() gax.Retryer { return newRetryer() })
}

// maxRetryAfter bounds the Retry-After that a call waits for.
const maxRetryAfter = 2 * time.Minute

func (r *retryer) Retry(err error) (time.Duration, bool) {
	open := isOpen(err)
	r.open = r.open || open
	r.lost = r.lost || open && !isAnswered(err)
	if r.attempts++; r.attempts >= maxAttempts || !passes(err) {
		return 0, false
	}
	wait := r.Pause()
	if e, ok := errors.AsType[*googleapi.Error](err); ok {
		if seconds, err := strconv.ParseUint(strings.TrimSpace(e.Header.Get("Retry-After")), 10, 31); err == nil && seconds > 0 {
			after := time.Duration(seconds) * time.Second
			return after + mathrand.N(after/10+1), after <= maxRetryAfter
		}
		if e.Code == http.StatusTooManyRequests || e.Code == http.StatusForbidden {
			wait *= 4 // limits are per minute
		}
	}
	return min(wait, r.Max), true
}

// passing are reasons of refusals that the next attempt may not meet.
var passing = []string{"ratelimitexceeded", "resourcenotready", "resource_not_ready", "concurrent_operations_quota_exceeded"}

// passes reports whether the next attempt may succeed.
func passes(err error) bool {
	if t, ok := errors.AsType[*tokenError](err); ok {
		return t.odd // after other failures the credentials themselves ask for a token again
	}
	if e, ok := errors.AsType[*googleapi.Error](err); ok {
		said := words(err)
		return e.Code == http.StatusTooManyRequests || e.Code == http.StatusRequestTimeout || e.Code >= 500 && e.Code != http.StatusNotImplemented ||
			slices.ContainsFunc(passing, func(reason string) bool { return strings.Contains(said, reason) })
	}
	_, tooLarge := errors.AsType[*http.MaxBytesError](err)
	return !errors.Is(err, context.Canceled) && !tooLarge // no answer, or an unreadable one
}

// done names the call that failed, and removes secrets from its error.
func (c *client) done(ctx context.Context, what string, err error) error {
	if err == nil {
		return nil
	}
	cleaned := clean(err, c.billing.Redact)
	if ended := context.Cause(ctx); ctx.Err() != nil && !errors.Is(cleaned, ended) {
		return fmt.Errorf("%s: %w (%w)", what, ended, cleaned)
	}
	return fmt.Errorf("%s: %w", what, cleaned)
}

// newRequestID returns a unique request ID.
func newRequestID() string { return uuid(rand.Text()) }

func (c *client) insert(ctx context.Context, zone, requestID string, in *computepb.Instance) (*computepb.Operation, error) {
	tried := newRetryer()
	op, err := c.instances.Insert(ctx, &computepb.InsertInstanceRequest{Project: c.project, Zone: zone, RequestId: &requestID, InstanceResource: in},
		gax.WithRetry(func() gax.Retryer { return tried }))
	begun, err := c.operation(ctx, "instances.insert", zone, op, err)
	if err != nil && tried.open {
		err = &unansweredError{err, tried.lost}
	}
	return begun, err
}

// instance returns an instance, or an error that isGone.
func (c *client) instance(ctx context.Context, zone, name string) (*computepb.Instance, error) {
	in, err := c.instances.Get(ctx, &computepb.GetInstanceRequest{Project: c.project, Zone: zone, Instance: name}, again())
	if err == nil && in.GetName() != name {
		err = fmt.Errorf("%w: the answer is not instance %s", errAnswer, name)
	}
	return in, c.done(ctx, "instances.get", err)
}

func (c *client) delete(ctx context.Context, zone, name string) error {
	op, err := c.instances.Delete(ctx, &computepb.DeleteInstanceRequest{Project: c.project, Zone: zone, Instance: name, RequestId: proto.String(newRequestID())}, again())
	_, err = c.operation(ctx, "instances.delete", zone, op, err)
	return err
}

func (c *client) setLabels(ctx context.Context, zone, name, fingerprint string, labels map[string]string) error {
	op, err := c.instances.SetLabels(ctx, &computepb.SetLabelsInstanceRequest{
		Project: c.project, Zone: zone, Instance: name, RequestId: proto.String(newRequestID()),
		InstancesSetLabelsRequestResource: &computepb.InstancesSetLabelsRequest{LabelFingerprint: &fingerprint, Labels: labels},
	}, again())
	_, err = c.operation(ctx, "instances.setLabels", zone, op, err)
	return err
}

// hostKeys returns the keys that the guest agent has published, by type.
func (c *client) hostKeys(ctx context.Context, zone, name string) (map[string]string, error) {
	got, err := c.instances.GetGuestAttributes(ctx, &computepb.GetGuestAttributesInstanceRequest{
		Project: c.project, Zone: zone, Instance: name, QueryPath: proto.String("hostkeys/"),
	}, again())
	if err = c.done(ctx, "instances.getGuestAttributes", err); err != nil {
		if isGone(err) {
			return nil, nil // nothing published yet
		}
		return nil, err
	}
	keys := map[string]string{}
	for _, item := range got.GetQueryValue().GetItems() {
		if item.GetNamespace() == "hostkeys" {
			keys[item.GetKey()] = item.GetValue()
		}
	}
	return keys, nil
}

// A scope is one zone's or region's part of an aggregated list.
type scope[T any] struct {
	name  string
	items []T
}

// seen returns an error if a list's warning says that a scope is incomplete.
func seen(name string, w *computepb.Warning) error {
	if code := w.GetCode(); w != nil && code != computepb.Warning_NO_RESULTS_ON_PAGE.String() {
		return fmt.Errorf("%w: the list lacks %s: %s: %s", errAnswer, name, code, w.GetMessage())
	}
	return nil
}

// filterOf restricts a list to a pool, or to everything that gputrain made.
func filterOf(poolID string) *string {
	if poolID == "" {
		return proto.String("labels." + labelManaged + "=true")
	}
	return proto.String("labels." + labelPool + "=" + poolID)
}

const pageSize = 500

func (c *client) listInstances(ctx context.Context, poolID string) ([]scope[*computepb.Instance], error) {
	pairs, err := listAll(ctx, c, "instances.aggregatedList", "compute#instanceAggregatedList", func(ctx context.Context) (func() (compute.InstancesScopedListPair, error), func() any) {
		it := c.instances.AggregatedList(ctx, &computepb.AggregatedListInstancesRequest{Project: c.project, Filter: filterOf(poolID), MaxResults: proto.Uint32(pageSize)}, again())
		return it.Next, func() any { return it.Response }
	})
	var all []scope[*computepb.Instance]
	for _, pair := range pairs {
		if err := seen(pair.Key, pair.Value.GetWarning()); err != nil {
			return nil, c.done(ctx, "instances.aggregatedList", err)
		}
		all = append(all, scope[*computepb.Instance]{last(pair.Key), pair.Value.GetInstances()})
	}
	return all, err
}

func (c *client) listDisks(ctx context.Context, poolID string) ([]scope[*computepb.Disk], error) {
	pairs, err := listAll(ctx, c, "disks.aggregatedList", "compute#diskAggregatedList", func(ctx context.Context) (func() (compute.DisksScopedListPair, error), func() any) {
		it := c.disks.AggregatedList(ctx, &computepb.AggregatedListDisksRequest{Project: c.project, Filter: filterOf(poolID), MaxResults: proto.Uint32(pageSize)}, again())
		return it.Next, func() any { return it.Response }
	})
	var all []scope[*computepb.Disk]
	for _, pair := range pairs {
		if err := seen(pair.Key, pair.Value.GetWarning()); err != nil {
			return nil, c.done(ctx, "disks.aggregatedList", err)
		}
		all = append(all, scope[*computepb.Disk]{last(pair.Key), pair.Value.GetDisks()})
	}
	return all, err
}

func (c *client) deleteDisk(ctx context.Context, zone, name string) (*computepb.Operation, error) {
	op, err := c.disks.Delete(ctx, &computepb.DeleteDiskRequest{Project: c.project, Zone: zone, Disk: name, RequestId: proto.String(newRequestID())}, again())
	return c.operation(ctx, "disks.delete", zone, op, err)
}

func (c *client) machineTypes(ctx context.Context, zone string) ([]*computepb.MachineType, error) {
	return listAll(ctx, c, "machineTypes.list", "compute#machineTypeList", func(ctx context.Context) (func() (*computepb.MachineType, error), func() any) {
		it := c.machines.List(ctx, &computepb.ListMachineTypesRequest{Project: c.project, Zone: zone, MaxResults: proto.Uint32(pageSize)}, again())
		return it.Next, func() any { return it.Response }
	})
}

func (c *client) acceleratorTypes(ctx context.Context, zone string) ([]*computepb.AcceleratorType, error) {
	return listAll(ctx, c, "acceleratorTypes.list", "compute#acceleratorTypeList", func(ctx context.Context) (func() (*computepb.AcceleratorType, error), func() any) {
		it := c.accelerators.List(ctx, &computepb.ListAcceleratorTypesRequest{Project: c.project, Zone: zone, MaxResults: proto.Uint32(pageSize)}, again())
		return it.Next, func() any { return it.Response }
	})
}

// region returns a region, with its zones and quotas.
func (c *client) region(ctx context.Context, region string) (*computepb.Region, error) {
	r, err := c.regions.Get(ctx, &computepb.GetRegionRequest{Project: c.project, Region: region}, again())
	if err == nil && r.GetName() != region {
		err = fmt.Errorf("%w: the answer is not a region", errAnswer)
	}
	return r, c.done(ctx, "regions.get", err)
}

func (c *client) listRegions(ctx context.Context) ([]*computepb.Region, error) {
	return listAll(ctx, c, "regions.list", "compute#regionList", func(ctx context.Context) (func() (*computepb.Region, error), func() any) {
		it := c.regions.List(ctx, &computepb.ListRegionsRequest{Project: c.project, MaxResults: proto.Uint32(pageSize)}, again())
		return it.Next, func() any { return it.Response }
	})
}

// projectQuotas returns the project's quotas for all regions.
func (c *client) projectQuotas(ctx context.Context) ([]*computepb.Quota, error) {
	p, err := c.projects.Get(ctx, &computepb.GetProjectRequest{Project: c.project}, again())
	if err == nil && p.GetName() == "" {
		err = fmt.Errorf("%w: the answer is not a project", errAnswer)
	}
	return p.GetQuotas(), c.done(ctx, "projects.get", err)
}

// zonesOf returns the zones of a region, in alphabetical order.
func zonesOf(r *computepb.Region) []string {
	var zones []string
	for _, address := range r.GetZones() {
		zones = append(zones, last(address))
	}
	slices.Sort(zones)
	return zones
}

func (c *client) imageOf(ctx context.Context, project, family string) (*computepb.Image, error) {
	image, err := c.images.GetFromFamily(ctx, &computepb.GetFromFamilyImageRequest{Project: project, Family: family}, again())
	if err == nil && image.GetSelfLink() == "" {
		err = fmt.Errorf("%w: the answer is not an image", errAnswer)
	}
	return image, c.done(ctx, "images.getFromFamily", err)
}

func (c *client) insertFirewall(ctx context.Context, rule *computepb.Firewall) (*computepb.Operation, error) {
	op, err := c.firewalls.Insert(ctx, &computepb.InsertFirewallRequest{Project: c.project, RequestId: proto.String(newRequestID()), FirewallResource: rule}, again())
	return c.operation(ctx, "firewalls.insert", "", op, err)
}

// firewall returns a rule, or an error that isGone.
func (c *client) firewall(ctx context.Context, name string) (*computepb.Firewall, error) {
	rule, err := c.firewalls.Get(ctx, &computepb.GetFirewallRequest{Project: c.project, Firewall: name}, again())
	if err == nil && rule.GetName() != name {
		err = fmt.Errorf("%w: the answer is not rule %s", errAnswer, name)
	}
	return rule, c.done(ctx, "firewalls.get", err)
}

func (c *client) listFirewalls(ctx context.Context) ([]*computepb.Firewall, error) {
	return listAll(ctx, c, "firewalls.list", "compute#firewallList", func(ctx context.Context) (func() (*computepb.Firewall, error), func() any) {
		it := c.firewalls.List(ctx, &computepb.ListFirewallsRequest{Project: c.project, MaxResults: proto.Uint32(pageSize)}, again())
		return it.Next, func() any { return it.Response }
	})
}

func (c *client) deleteFirewall(ctx context.Context, name string) (*computepb.Operation, error) {
	op, err := c.firewalls.Delete(ctx, &computepb.DeleteFirewallRequest{Project: c.project, Firewall: name, RequestId: proto.String(newRequestID())}, again())
	return c.operation(ctx, "firewalls.delete", "", op, err)
}

// poll returns the present state of an operation.
func (c *client) poll(ctx context.Context, op *computepb.Operation) (*computepb.Operation, error) {
	var now *computepb.Operation
	var err error
	if zone := op.GetZone(); zone != "" {
		now, err = c.zoneOps.Get(ctx, &computepb.GetZoneOperationRequest{Project: c.project, Zone: zone, Operation: op.GetName()}, again())
	} else {
		now, err = c.globalOps.Get(ctx, &computepb.GetGlobalOperationRequest{Project: c.project, Operation: op.GetName()}, again())
	}
	if err == nil {
		err = checkOperation(now, op.GetZone())
	}
	return now, c.done(ctx, "operations.get", err)
}

// preemptions returns the preemptions in a zone that Google still lists.
func (c *client) preemptions(ctx context.Context, zone string) ([]*computepb.Operation, error) {
	return listAll(ctx, c, "zoneOperations.list", "compute#operationList", func(ctx context.Context) (func() (*computepb.Operation, error), func() any) {
		it := c.zoneOps.List(ctx, &computepb.ListZoneOperationsRequest{
			Project: c.project, Zone: zone, Filter: proto.String(`operationType="compute.instances.preempted"`), MaxResults: proto.Uint32(pageSize),
		}, again())
		return it.Next, func() any { return it.Response }
	})
}

// operation returns the operation that a call has begun: in a zone or, if that is empty, a
// global one.
func (c *client) operation(ctx context.Context, what, zone string, op *compute.Operation, err error) (*computepb.Operation, error) {
	if err == nil {
		err = checkOperation(op.Proto(), zone)
	}
	if err != nil {
		return nil, c.done(ctx, what, err)
	}
	return op.Proto(), nil
}

// checkOperation returns an error if an answer is not an operation. It records the operation's
// zone, which the next poll needs.
func checkOperation(op *computepb.Operation, zone string) error {
	if op.GetName() == "" || !isKind(op, "compute#operation") {
		return fmt.Errorf("%w: the answer is not an operation", errAnswer)
	}
	op.Zone = &zone
	return nil
}

// listAll returns all items of a list. begin starts it and returns its iterator's Next and its
// last answer. Each answer must be of the given kind, as Google's client takes any JSON for an
// empty list.
func listAll[T any](ctx context.Context, c *client, what, kind string, begin func(ctx context.Context) (next func() (T, error), answer func() any)) ([]T, error) {
	ctx, done := c.transport.listing(ctx)
	defer done()
	next, answer := begin(ctx)
	var all []T
	var checked any
	for {
		item, err := next()
		if err == nil || errors.Is(err, iterator.Done) {
			if page := answer(); page != checked || page == nil {
				if err := checkPage(page, kind); err != nil {
					return nil, c.done(ctx, what, err)
				}
				checked = page
			}
		}
		switch {
		case errors.Is(err, iterator.Done):
			return all, nil
		case err != nil:
			return nil, c.done(ctx, what, err)
		}
		all = append(all, item)
	}
}

// checkPage returns an error for a page of a list that has another kind or is incomplete.
func checkPage(page any, kind string) error {
	if list, ok := page.(resource); !ok || !isKind(list, kind) {
		return fmt.Errorf("%w: the answer is not a %s", errAnswer, kind)
	}
	if list, ok := page.(interface{ GetUnreachables() []string }); ok && len(list.GetUnreachables()) > 0 {
		return fmt.Errorf("%w: the list lacks %v", errAnswer, list.GetUnreachables())
	}
	if list, ok := page.(interface{ GetWarning() *computepb.Warning }); ok {
		return seen("all of it", list.GetWarning())
	}
	return nil
}

// A resource is an answer of the API.
type resource interface {
	proto.Message
	GetKind() string
}

// isKind reports whether an answer has a kind. An answer without a kind must have content.
func isKind(r resource, kind string) bool {
	return r.GetKind() == kind || r.GetKind() == "" && proto.Size(r) > 0
}

// last returns the last name of an address.
func last(address string) string { return address[strings.LastIndexByte(address, '/')+1:] }
