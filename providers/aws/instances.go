package aws

import (
	"context"
	"fmt"
	"sync"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// instances are the machines that EC2 lists, with what this driver knows from launching or
// ending them.
type instances struct {
	api    *client
	images *images
	zones  *poolZones
	spot   *spotPrices
	opened time.Time // when this driver was opened

	mu   sync.Mutex
	made map[string]machine //secretvet:ignore without private keys; by the ID of the instance
}

// A machine is an instance that this driver has launched, or ended.
type machine struct {
	node   driver.NodeRequest //secretvet:ignore without its private key
	offer  driver.Offer
	diskGB int // the size of its disk; 0 if it is not known
	sight  cloud.Sight
	gone   bool // EC2 did not know it when asked to end it
}

func (i *instances) remember(id string, change func(*machine)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	m := i.made[id]
	change(&m)
	i.made[id] = m
}

func (i *instances) remembered(id string) machine {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.made[id]
}

// find returns the instances that pass all filters, in any state.
func (i *instances) find(ctx context.Context, filters ...types.Filter) (all []types.Instance, err error) {
	pages := ec2.NewDescribeInstancesPaginator(i.api.ec2, &ec2.DescribeInstancesInput{Filters: filters})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err == nil {
			err = isList("DescribeInstances", page.Reservations)
		}
		if err != nil {
			return nil, err
		}
		for _, r := range page.Reservations {
			for _, in := range r.Instances {
				if sdk.ToString(in.InstanceId) == "" {
					return nil, fmt.Errorf("DescribeInstances: %w: an instance has no ID", rest.ErrAnswer)
				}
				all = append(all, in)
			}
		}
	}
	return all, nil
}

// isList returns an error if an answer lacks the list, even an empty one. Taken for empty,
// everything in it would count as gone.
func isList[T any](operation string, list []T) error {
	if list == nil {
		return fmt.Errorf("%s: %w: the answer has no list, not even an empty one", operation, rest.ErrAnswer)
	}
	return nil
}

// list reports the machines of a pool, or of all pools.
func (i *instances) list(ctx context.Context, poolID string) (all []driver.Resource, err error) {
	live := filter("instance-state-name", "pending", "running", "stopping", "stopped", "shutting-down")
	found, err := i.find(ctx, append(ofPool(poolID), live)...)
	for _, in := range found {
		tags := tagList(in.Tags)
		r := tags.resource(kindMachine, sdk.ToString(in.InstanceId), tags.value(tagNode), i.api.region)
		if r.State, _ = stateOf(in); i.isGone(i.remembered(r.ID), r.State) {
			continue
		}
		r.Doubt = tags.tag().Doubt(tags.value("Name"), time.Time{})
		r.Created = sdk.ToTime(in.LaunchTime)
		if r.HourlyUSD = tags.price(); in.InstanceLifecycle == types.InstanceLifecycleTypeSpot {
			r.HourlyUSD = i.offerOf(ctx, in, i.remembered(r.ID)).HourlyUSD
		}
		all = append(all, r)
	}
	return all, err
}

// poolZones are the zones that pools are in.
type poolZones struct {
	mu    sync.Mutex
	zones map[string]string // by pool
}

// zone returns the zone of a pool, or "".
func (p *poolZones) zone(poolID string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.zones[poolID]
}

// pin sets the zone of a pool that has none.
func (p *poolZones) pin(poolID, zone string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if poolID != "" && zone != "" && p.zones[poolID] == "" {
		p.zones[poolID] = zone
	}
}

func (p *poolZones) forget(poolID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.zones, poolID)
}

// zoneOf returns the zone of an instance, or "".
func zoneOf(in types.Instance) string {
	if in.Placement == nil {
		return ""
	}
	return sdk.ToString(in.Placement.AvailabilityZone)
}
