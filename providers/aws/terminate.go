package aws

import (
	"context"
	"regexp"
	"slices"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/gputrain/gputrain"
)

// perTermination is how many machines one call may end.
const perTermination = 1000

// Terminate ends the machines, and with them their disks.
func (d *driver) Terminate(ctx context.Context, ids ...string) error {
	ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !instanceForm.MatchString(id) }) // it cannot be there
	for some := range slices.Chunk(ids, perTermination) {
		unknown, err := d.knownOf(some, func(known []string) error { return d.terminate(ctx, known) })
		for _, id := range unknown {
			d.remember(id, func(m *machine) { m.gone = true })
		}
		if err != nil {
			return fail("terminate", err)
		}
	}
	return nil
}

// terminate ends machines. That the system does not shut down first saves minutes on those
// with GPUs; where that cannot be had, it does.
func (d *driver) terminate(ctx context.Context, ids []string) error {
	in := &ec2.TerminateInstancesInput{InstanceIds: ids, SkipOsShutdown: sdk.Bool(true)}
	out, err := d.api.ec2.TerminateInstances(ctx, in)
	if isCode(err, "UnknownParameter", "UnsupportedOperation", "InvalidParameterCombination", "InvalidParameterValue") {
		in.SkipOsShutdown = nil
		out, err = d.api.ec2.TerminateInstances(ctx, in)
	}
	if err != nil {
		return err
	}
	for _, ended := range out.TerminatingInstances {
		d.remember(sdk.ToString(ended.InstanceId), func(m *machine) { m.ended = true })
	}
	return nil
}

var instanceIDs = regexp.MustCompile(`\bi-[0-9a-f]{8,17}\b`)

// knownOf calls for machines until EC2 knows all of them: one that it does not know refuses
// the whole call. It names those, and they are left out and returned. That a machine is not
// known does not say that it is gone: it may be too new, and Describe tells.
func (d *driver) knownOf(ids []string, call func(ids []string) error) (unknown []string, err error) {
	for len(ids) > 0 {
		err := call(ids)
		if !isCode(err, "InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed", "InvalidID") {
			return unknown, err
		}
		_, message := codeOf(err)
		named := instanceIDs.FindAllString(message, -1)
		isNamed := func(id string) bool { return slices.Contains(named, id) }
		rest := slices.DeleteFunc(slices.Clone(ids), isNamed)
		if len(rest) == len(ids) {
			return unknown, err
		}
		unknown = append(unknown, slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !isNamed(id) })...)
		ids = rest
	}
	return unknown, nil
}

// MarkLease notes in a tag of the machines how long their pool's program is known to live.
func (d *driver) MarkLease(ctx context.Context, pool gputrain.PoolInfo, until time.Time, ids ...string) error {
	if err := checkPool(pool.ID); err != nil {
		return fail("mark the lease", err)
	}
	ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !instanceForm.MatchString(id) })
	var tags tagList
	for _, t := range poolTags(pool, "") {
		if key := sdk.ToString(t.Key); key != tagManaged && key != tagPool {
			tags = append(tags, t)
		}
	}
	tags.add(tagUntil, until.UTC().Format(time.RFC3339))
	_, err := d.knownOf(ids, func(known []string) error {
		_, err := d.api.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: known, Tags: []types.Tag(tags)})
		return err
	})
	return fail("mark the lease", err)
}
