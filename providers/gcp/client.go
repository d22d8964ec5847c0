package gcp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
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

// A client is the API: one method for each call, no waiting for effects, no policy. Every
// call may be repeated: those that change something carry a request ID, by which Google
// does them once.
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
}

func newClient(ctx context.Context, cfg Config, base http.RoundTripper, id *identity) (*client, error) {
	t := &transport{base: base, id: id, timeout: cfg.RequestTimeout}
	hc := &http.Client{Transport: t, CheckRedirect: stay}
	c := &client{project: cfg.ProjectID, transport: t}
	var err error
	if c.billing, err = rest.New(rest.Config{BaseURL: cfg.billing(), HTTPClient: hc, Timeout: cfg.RequestTimeout, Attempts: 2, Fault: billingFault}); err != nil {
		return nil, fmt.Errorf("reading Endpoint: %w", err)
	}
	t.hide = c.billing.Hide
	// With an HTTP client of ours Google's looks for no credentials, nor for an address.
	opts := []option.ClientOption{option.WithEndpoint(cfg.compute()), option.WithHTTPClient(hc)}
	// They hold nothing that would have to be closed: the connections are base's.
	var errs [9]error
	c.instances, errs[0] = compute.NewInstancesRESTClient(ctx, opts...)
	c.machines, errs[1] = compute.NewMachineTypesRESTClient(ctx, opts...)
	c.accelerators, errs[2] = compute.NewAcceleratorTypesRESTClient(ctx, opts...)
	c.images, errs[3] = compute.NewImagesRESTClient(ctx, opts...)
	c.regions, errs[4] = compute.NewRegionsRESTClient(ctx, opts...)
	c.disks, errs[5] = compute.NewDisksRESTClient(ctx, opts...)
	c.firewalls, errs[6] = compute.NewFirewallsRESTClient(ctx, opts...)
	c.zoneOps, errs[7] = compute.NewZoneOperationsRESTClient(ctx, opts...)
	c.globalOps, errs[8] = compute.NewGlobalOperationsRESTClient(ctx, opts...)
	return c, errors.Join(errs[:]...)
}

// stay follows redirects of reads within their server only: the token is for no other.
func stay(req *http.Request, via []*http.Request) error {
	first := via[0]
	if first.Method != http.MethodGet || req.URL.Scheme != first.URL.Scheme || req.URL.Host != first.URL.Host || len(via) >= 10 {
		return http.ErrUseLastResponse
	}
	return nil
}

// A retryer says what is tried again, and when.
type retryer struct {
	attempts int
	open     bool // one of them has left open what it made
	lost     bool // one of these was not answered
}

const maxAttempts = 5

func again() gax.CallOption {
	return gax.WithRetry(func() gax.Retryer { return &retryer{} })
}

// maxRetryAfter is the longest Retry-After that is waited for.
const maxRetryAfter = 2 * time.Minute

func (r *retryer) Retry(err error) (time.Duration, bool) {
	open := isOpen(clean(err, func(text string) string { return text }))
	r.open = r.open || open
	r.lost = r.lost || open && !isAnswered(err)
	if r.attempts++; r.attempts >= maxAttempts || !passes(err) {
		return 0, false
	}
	wait := second << (r.attempts - 1)
	if e, ok := errors.AsType[*googleapi.Error](err); ok {
		if seconds, err := strconv.ParseUint(strings.TrimSpace(e.Header.Get("Retry-After")), 10, 31); err == nil && seconds > 0 {
			after := time.Duration(seconds) * time.Second
			return after + mathrand.N(after/10+1), after <= maxRetryAfter
		}
		if e.Code == http.StatusTooManyRequests || e.Code == http.StatusForbidden {
			wait *= 4 // limits are per minute
		}
	}
	wait = min(wait, 30*second)
	return wait - mathrand.N(wait/2+1), true
}

// passes is whether a failure may be gone at the next attempt.
func passes(err error) bool {
	if t, ok := errors.AsType[*tokenError](err); ok {
		return t.odd // after other failures tokens are asked for again where they are made
	}
	if e, ok := errors.AsType[*googleapi.Error](err); ok {
		said := strings.ToLower(strings.Join(words(err), " "))
		return e.Code == http.StatusTooManyRequests || e.Code == http.StatusRequestTimeout || e.Code >= 500 && e.Code != http.StatusNotImplemented ||
			slices.ContainsFunc([]string{"ratelimitexceeded", "resourcenotready", "resource_not_ready", "concurrent_operations_quota_exceeded"}, func(s string) bool {
				return strings.Contains(said, s)
			})
	}
	return !errors.Is(err, context.Canceled) && !errors.Is(err, errTooLarge) // no answer, or one that is not understood
}

// done returns a failure as callers may see it.
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

// newRequestID returns one that no other call has.
func newRequestID() string { return uuid(rand.Text()) }

func (c *client) insert(ctx context.Context, zone, requestID string, in *computepb.Instance) (*computepb.Operation, error) {
	tried := &retryer{}
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
		err = fmt.Errorf("%w: it is no instance %s", errAnswer, name)
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

// hostKeys returns what the guest agent has published, by the keys' types.
func (c *client) hostKeys(ctx context.Context, zone, name string) (map[string]string, error) {
	got, err := c.instances.GetGuestAttributes(ctx, &computepb.GetGuestAttributesInstanceRequest{
		Project: c.project, Zone: zone, Instance: name, QueryPath: proto.String("hostkeys/"),
	}, again())
	if err = c.done(ctx, "instances.getGuestAttributes", err); err != nil {
		if isGone(err) {
			return nil, nil // nothing is published yet
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

// A scope is what an aggregated list has of one zone, or region.
type scope[T any] struct {
	name  string
	items []T
}

// seen returns an error where a list says that it has not seen all of a scope.
func seen(name string, w *computepb.Warning) error {
	if code := w.GetCode(); w != nil && code != computepb.Warning_NO_RESULTS_ON_PAGE.String() {
		return fmt.Errorf("%w: %s was not seen: %s: %s", errAnswer, name, code, w.GetMessage())
	}
	return nil
}

// filterOf is what restricts a list to what is gputrain's.
func filterOf(poolID string) *string {
	if poolID == "" {
		return proto.String("labels." + labelManaged + "=true")
	}
	return proto.String("labels." + labelPool + "=" + poolID)
}

const pageSize = 500

func (c *client) listInstances(ctx context.Context, poolID string) ([]scope[*computepb.Instance], error) {
	ctx, done := c.transport.listing(ctx)
	defer done()
	it := c.instances.AggregatedList(ctx, &computepb.AggregatedListInstancesRequest{Project: c.project, Filter: filterOf(poolID), MaxResults: proto.Uint32(pageSize)}, again())
	var all []scope[*computepb.Instance]
	for pair, err := range pages(it.Next, func() any { return it.Response }, "compute#instanceAggregatedList") {
		if err == nil {
			err = seen(pair.Key, pair.Value.GetWarning())
		}
		if err != nil {
			return nil, c.done(ctx, "instances.aggregatedList", err)
		}
		all = append(all, scope[*computepb.Instance]{last(pair.Key), pair.Value.GetInstances()})
	}
	return all, nil
}

func (c *client) listDisks(ctx context.Context, poolID string) ([]scope[*computepb.Disk], error) {
	ctx, done := c.transport.listing(ctx)
	defer done()
	it := c.disks.AggregatedList(ctx, &computepb.AggregatedListDisksRequest{Project: c.project, Filter: filterOf(poolID), MaxResults: proto.Uint32(pageSize)}, again())
	var all []scope[*computepb.Disk]
	for pair, err := range pages(it.Next, func() any { return it.Response }, "compute#diskAggregatedList") {
		if err == nil {
			err = seen(pair.Key, pair.Value.GetWarning())
		}
		if err != nil {
			return nil, c.done(ctx, "disks.aggregatedList", err)
		}
		all = append(all, scope[*computepb.Disk]{last(pair.Key), pair.Value.GetDisks()})
	}
	return all, nil
}

func (c *client) deleteDisk(ctx context.Context, zone, name string) (*computepb.Operation, error) {
	op, err := c.disks.Delete(ctx, &computepb.DeleteDiskRequest{Project: c.project, Zone: zone, Disk: name, RequestId: proto.String(newRequestID())}, again())
	return c.operation(ctx, "disks.delete", zone, op, err)
}

func (c *client) machineTypes(ctx context.Context, zone string) iter.Seq2[*computepb.MachineType, error] {
	return func(yield func(*computepb.MachineType, error) bool) {
		ctx, done := c.transport.listing(ctx)
		defer done()
		it := c.machines.List(ctx, &computepb.ListMachineTypesRequest{Project: c.project, Zone: zone, MaxResults: proto.Uint32(pageSize)}, again())
		for m, err := range pages(it.Next, func() any { return it.Response }, "compute#machineTypeList") {
			if !yield(m, c.done(ctx, "machineTypes.list", err)) {
				return
			}
		}
	}
}

func (c *client) acceleratorTypes(ctx context.Context, zone string) ([]*computepb.AcceleratorType, error) {
	ctx, done := c.transport.listing(ctx)
	defer done()
	it := c.accelerators.List(ctx, &computepb.ListAcceleratorTypesRequest{Project: c.project, Zone: zone, MaxResults: proto.Uint32(pageSize)}, again())
	var all []*computepb.AcceleratorType
	for a, err := range pages(it.Next, func() any { return it.Response }, "compute#acceleratorTypeList") {
		if err != nil {
			return nil, c.done(ctx, "acceleratorTypes.list", err)
		}
		all = append(all, a)
	}
	return all, nil
}

// zones returns the zones of a region, in alphabetical order.
func (c *client) zones(ctx context.Context, region string) ([]string, error) {
	r, err := c.regions.Get(ctx, &computepb.GetRegionRequest{Project: c.project, Region: region}, again())
	if err == nil && r.GetName() != region {
		err = fmt.Errorf("%w: it is no region", errAnswer)
	}
	if err != nil {
		return nil, c.done(ctx, "regions.get", err)
	}
	var zones []string
	for _, address := range r.GetZones() {
		zones = append(zones, last(address))
	}
	slices.Sort(zones)
	return zones, nil
}

func (c *client) imageOf(ctx context.Context, project, family string) (*computepb.Image, error) {
	image, err := c.images.GetFromFamily(ctx, &computepb.GetFromFamilyImageRequest{Project: project, Family: family}, again())
	if err == nil && image.GetSelfLink() == "" {
		err = fmt.Errorf("%w: it is no image", errAnswer)
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
		err = fmt.Errorf("%w: it is no rule %s", errAnswer, name)
	}
	return rule, c.done(ctx, "firewalls.get", err)
}

func (c *client) listFirewalls(ctx context.Context) ([]*computepb.Firewall, error) {
	ctx, done := c.transport.listing(ctx)
	defer done()
	it := c.firewalls.List(ctx, &computepb.ListFirewallsRequest{Project: c.project, MaxResults: proto.Uint32(pageSize)}, again())
	var all []*computepb.Firewall
	for rule, err := range pages(it.Next, func() any { return it.Response }, "compute#firewallList") {
		if err != nil {
			return nil, c.done(ctx, "firewalls.list", err)
		}
		all = append(all, rule)
	}
	return all, nil
}

func (c *client) deleteFirewall(ctx context.Context, name string) (*computepb.Operation, error) {
	op, err := c.firewalls.Delete(ctx, &computepb.DeleteFirewallRequest{Project: c.project, Firewall: name, RequestId: proto.String(newRequestID())}, again())
	return c.operation(ctx, "firewalls.delete", "", op, err)
}

// poll returns an operation as it is now.
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

// preemptions returns the preemptions in a zone that are remembered.
func (c *client) preemptions(ctx context.Context, zone string) ([]*computepb.Operation, error) {
	ctx, done := c.transport.listing(ctx)
	defer done()
	it := c.zoneOps.List(ctx, &computepb.ListZoneOperationsRequest{
		Project: c.project, Zone: zone, Filter: proto.String(`operationType="compute.instances.preempted"`), MaxResults: proto.Uint32(pageSize),
	}, again())
	var all []*computepb.Operation
	for op, err := range pages(it.Next, func() any { return it.Response }, "compute#operationList") {
		if err != nil {
			return nil, c.done(ctx, "zoneOperations.list", err)
		}
		all = append(all, op)
	}
	return all, nil
}

// operation returns what a call has begun, in a zone or, where that is empty, everywhere.
func (c *client) operation(ctx context.Context, what, zone string, op *compute.Operation, err error) (*computepb.Operation, error) {
	if err == nil {
		err = checkOperation(op.Proto(), zone)
	}
	if err != nil {
		return nil, c.done(ctx, what, err)
	}
	return op.Proto(), nil
}

// checkOperation returns what is wrong with an operation, and puts down where it is, by
// which it is asked for again.
func checkOperation(op *computepb.Operation, zone string) error {
	if op.GetName() == "" || !isKind(op, "compute#operation") {
		return fmt.Errorf("%w: it is no operation", errAnswer)
	}
	op.Zone = &zone
	return nil
}

// pages yields what a list has, page by page as it is asked for, of answers that are what
// they should be: Google's client takes any JSON for an empty list.
func pages[T any](next func() (T, error), answer func() any, kind string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		var checked any
		for {
			item, err := next()
			if ended := errors.Is(err, iterator.Done); err != nil && !ended {
				yield(none, err)
				return
			} else if page := answer(); page != checked || page == nil {
				if err := checkPage(page, kind); err != nil {
					yield(none, err)
					return
				}
				checked = page
			}
			if err != nil || !yield(item, nil) {
				return
			}
		}
	}
}

// checkPage returns what is wrong with a page of a list.
func checkPage(page any, kind string) error {
	if list, ok := page.(resource); !ok || !isKind(list, kind) {
		return fmt.Errorf("%w: it is no %s", errAnswer, kind)
	}
	if list, ok := page.(interface{ GetUnreachables() []string }); ok && len(list.GetUnreachables()) > 0 {
		return fmt.Errorf("%w: not seen: %v", errAnswer, list.GetUnreachables())
	}
	if list, ok := page.(interface{ GetWarning() *computepb.Warning }); ok {
		return seen("all of it", list.GetWarning())
	}
	return nil
}

// A resource is what the API answers with.
type resource interface {
	proto.Message
	GetKind() string
}

// isKind is whether an answer is of a kind. One that does not say so has to say something
// else.
func isKind(r resource, kind string) bool {
	return r.GetKind() == kind || r.GetKind() == "" && proto.Size(r) > 0
}

// last returns the name at the end of an address.
func last(address string) string { return address[strings.LastIndexByte(address, '/')+1:] }
