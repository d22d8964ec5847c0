package aws

import (
	"context"
	"fmt"
	"net/url"
	"slices"

	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// profilePath is the IAM path of all roles and instance profiles that gputrain makes.
const profilePath = "/gputrain/"

// trust lets EC2 give a role to machines.
const trust = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}`

// A profile is an instance profile as IAM describes it.
type profile struct {
	Name  string   `xml:"InstanceProfileName"`
	ARN   string   `xml:"Arn"`
	Roles []string `xml:"Roles>member>RoleName"`
}

// instanceProfiles are the pools' instance profiles, each with its role. Config asks for them.
type instanceProfiles struct {
	api    *client
	auto   bool   // Config asks for them
	policy string // the permissions of machines, in JSON
}

func (i *instanceProfiles) shared() sharedKind {
	return sharedKind{
		name: kindProfile, usedByMachines: true, // a machine may need it to shut itself down
		namesSuffice: true, // the role is made before the profile has an ID
		list:         i.list, delete: i.delete,
	}
}

// prepare makes the pool's role and its instance profile, under one name. What exists already
// was made by an earlier attempt, as the name is the pool's. Roles cost nothing.
func (i *instanceProfiles) prepare(ctx context.Context, pool driver.PoolInfo) error {
	name := pooltag.SharedName(pool.ID)
	r := driver.Resource{Kind: kindProfile, Name: name, HourlyUSD: driver.USD(0)}
	if err := pool.Record(r); err != nil {
		return err
	}
	tags := func(form url.Values) url.Values {
		for n, t := range poolTags(pool, "") {
			form.Set(fmt.Sprintf("Tags.member.%d.Key", n+1), *t.Key)
			form.Set(fmt.Sprintf("Tags.member.%d.Value", n+1), *t.Value)
		}
		return form
	}
	for _, step := range []struct {
		action string
		form   url.Values
	}{
		{"CreateRole", tags(url.Values{"RoleName": {name}, "Path": {profilePath}, "AssumeRolePolicyDocument": {trust}})},
		{"PutRolePolicy", url.Values{"RoleName": {name}, "PolicyName": {"gputrain"}, "PolicyDocument": {i.policy}}},
		{"CreateInstanceProfile", tags(url.Values{"InstanceProfileName": {name}, "Path": {profilePath}})},
		{"AddRoleToInstanceProfile", url.Values{"InstanceProfileName": {name}, "RoleName": {name}}},
	} {
		// Each call is idempotent, or reports that the thing exists.
		err := i.api.iam.do(ctx, step.action, step.form, nil)
		if err != nil && !isDuplicate(err) && !(step.action == "AddRoleToInstanceProfile" && isCode(err, "LimitExceeded")) {
			return fmt.Errorf("%s: %w", step.action, err)
		}
	}
	arn, err := i.arn(ctx, pool)
	if err != nil {
		return err
	}
	r.ID = arn
	return pool.Record(r)
}

// arn returns the ARN of the pool's instance profile.
func (i *instanceProfiles) arn(ctx context.Context, pool driver.PoolInfo) (string, error) {
	var out struct {
		Profile profile `xml:"GetInstanceProfileResult>InstanceProfile"`
	}
	err := i.api.iam.do(ctx, "GetInstanceProfile", url.Values{"InstanceProfileName": {pooltag.SharedName(pool.ID)}}, &out)
	if err == nil && out.Profile.ARN == "" {
		err = fmt.Errorf("GetInstanceProfile: %w: the answer has no ARN", rest.ErrAnswer)
	}
	return out.Profile.ARN, err
}

// list reports the instance profiles, each with its role, of a pool or of all. IAM's lists show
// no tags, so the name identifies the pool.
func (i *instanceProfiles) list(ctx context.Context, poolID string) (all []driver.Resource, err error) {
	if !i.auto {
		return nil, nil
	}
	for p, err := range rest.Pages(func(cursor string) ([]profile, string, error) {
		form := url.Values{"PathPrefix": {profilePath}}
		if cursor != "" {
			form.Set("Marker", cursor)
		}
		var out struct {
			Profiles []profile `xml:"ListInstanceProfilesResult>InstanceProfiles>member"`
			Marker   string    `xml:"ListInstanceProfilesResult>Marker"`
		}
		err := i.api.iam.do(ctx, "ListInstanceProfiles", form, &out)
		return out.Profiles, out.Marker, err
	}) {
		if err != nil {
			return nil, err
		}
		pool, ours := pooltag.PoolOf(p.Name)
		if ours && (poolID == "" || pool == poolID) {
			all = append(all, driver.Resource{Provider: providerName, Kind: kindProfile, ID: p.ARN, Name: p.Name, Pool: pool, HourlyUSD: driver.USD(0)})
		}
	}
	return all, nil
}

// delete removes an instance profile and its role, in the order that IAM requires. It skips
// what is already removed.
func (i *instanceProfiles) delete(ctx context.Context, r driver.Resource) error {
	name := r.Name
	steps := []struct {
		action string
		form   url.Values
	}{
		{"RemoveRoleFromInstanceProfile", url.Values{"InstanceProfileName": {name}, "RoleName": {name}}},
		{"DeleteInstanceProfile", url.Values{"InstanceProfileName": {name}}},
		{"DeleteRolePolicy", url.Values{"RoleName": {name}, "PolicyName": {"gputrain"}}},
		{"DeleteRole", url.Values{"RoleName": {name}}},
	}
	for step := range slices.Values(steps) {
		if err := i.api.iam.do(ctx, step.action, step.form, nil); err != nil && !isGone(err) {
			return fmt.Errorf("%s: %w", step.action, err)
		}
	}
	return nil
}
