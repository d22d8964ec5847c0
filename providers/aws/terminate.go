package aws

import (
	"context"
	"regexp"
	"slices"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// perTermination is the largest number of machines that one call ends.
const perTermination = 1000

// terminate ends the machines, and with them their disks.
func (i *instances) terminate(ctx context.Context, ids []string) error {
	for some := range slices.Chunk(valid(ids), perTermination) {
		unknown, err := knownOf(some, func(known []string) error { return i.end(ctx, known) })
		for _, id := range unknown {
			i.remember(id, func(m *machine) {
				m.gone = true
				m.sight.Ended(false)
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// valid returns the IDs that have the form of an instance ID. No machine has any other.
func valid(ids []string) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !instanceForm.MatchString(id) })
}

// end ends machines in one call. Unless EC2 refuses that, their systems do not shut down first,
// which saves minutes on machines with GPUs.
func (i *instances) end(ctx context.Context, ids []string) error {
	in := &ec2.TerminateInstancesInput{InstanceIds: ids, SkipOsShutdown: sdk.Bool(true)}
	out, err := i.api.ec2.TerminateInstances(ctx, in)
	if isCode(err, "UnknownParameter", "UnsupportedOperation", "InvalidParameterCombination", "InvalidParameterValue") {
		in.SkipOsShutdown = nil
		out, err = i.api.ec2.TerminateInstances(ctx, in)
	}
	if err != nil {
		return err
	}
	for _, ended := range out.TerminatingInstances {
		i.remember(sdk.ToString(ended.InstanceId), func(m *machine) { m.sight.Ended(true) })
	}
	return nil
}

var instanceIDs = regexp.MustCompile(`\bi-[0-9a-f]{8,17}\b`)

// knownOf makes a call for machines. EC2 refuses the whole call because of one ID that it does
// not know, and names it. knownOf repeats the call without such IDs and returns them. They may
// be gone or too new; Describe decides.
func knownOf(ids []string, call func(ids []string) error) (unknown []string, err error) {
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

// markLease records in a tag of the machines until when their pool's program has extended the
// lease.
func (i *instances) markLease(ctx context.Context, pool driver.PoolInfo, until time.Time, ids []string) error {
	if err := pooltag.CheckPool(pool.ID); err != nil {
		return err
	}
	var tags tagList
	for _, t := range poolTags(pool, "") {
		if key := sdk.ToString(t.Key); key != tagManaged && key != tagPool {
			tags = append(tags, t)
		}
	}
	tags.add(tagUntil, until.UTC().Format(time.RFC3339))
	_, err := knownOf(valid(ids), func(known []string) error {
		_, err := i.api.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: known, Tags: []types.Tag(tags)})
		return err
	})
	return err
}
