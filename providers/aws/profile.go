package aws

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/rest"
)

// profilePath is the IAM path of all roles and instance profiles that gputrain makes.
const profilePath = "/gputrain/"

// trust lets EC2 give a role to machines.
const trust = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}`

// A profile is an instance profile, as IAM tells of it.
type profile struct {
	Name  string   `xml:"InstanceProfileName"`
	ARN   string   `xml:"Arn"`
	Roles []string `xml:"Roles>member>RoleName"`
}

// prepareProfile makes the pool's role and its instance profile, under one name. What is
// there already is what an earlier attempt has made: roles cost nothing, and their name is
// the pool's.
func (d *driver) prepareProfile(ctx context.Context, pool gputrain.PoolInfo) error {
	name := nameOf(pool.ID)
	r := gputrain.Resource{Kind: kindProfile, Name: name, HourlyUSD: gputrain.USD(0)}
	if err := pool.Record(r); err != nil {
		return err
	}
	tags := func(form url.Values) url.Values {
		for i, t := range poolTags(pool, "") {
			form.Set(fmt.Sprintf("Tags.member.%d.Key", i+1), *t.Key)
			form.Set(fmt.Sprintf("Tags.member.%d.Value", i+1), *t.Value)
		}
		return form
	}
	for _, step := range []struct {
		action string
		form   url.Values
	}{
		{"CreateRole", tags(url.Values{"RoleName": {name}, "Path": {profilePath}, "AssumeRolePolicyDocument": {trust}})},
		{"PutRolePolicy", url.Values{"RoleName": {name}, "PolicyName": {"gputrain"}, "PolicyDocument": {d.cfg.InstanceProfilePolicy}}},
		{"CreateInstanceProfile", tags(url.Values{"InstanceProfileName": {name}, "Path": {profilePath}})},
		{"AddRoleToInstanceProfile", url.Values{"InstanceProfileName": {name}, "RoleName": {name}}},
	} {
		// Each has the same effect however often it is made, or says that it has been made.
		err := d.api.iam.do(ctx, step.action, step.form, nil)
		if err != nil && !isDuplicate(err) && !(step.action == "AddRoleToInstanceProfile" && isCode(err, "LimitExceeded")) {
			return fmt.Errorf("%s: %w", step.action, err)
		}
	}
	arn, err := d.profileARN(ctx, pool)
	if err != nil {
		return err
	}
	r.ID = arn
	return pool.Record(r)
}

// profileARN returns the ARN of the pool's instance profile.
func (d *driver) profileARN(ctx context.Context, pool gputrain.PoolInfo) (string, error) {
	var out struct {
		Profile profile `xml:"GetInstanceProfileResult>InstanceProfile"`
	}
	err := d.api.iam.do(ctx, "GetInstanceProfile", url.Values{"InstanceProfileName": {nameOf(pool.ID)}}, &out)
	if err == nil && out.Profile.ARN == "" {
		err = fmt.Errorf("GetInstanceProfile: %w: it names no ARN", rest.ErrAnswer)
	}
	return out.Profile.ARN, err
}

// listProfiles reports the instance profiles, and with them the roles, of a pool or of
// all. Lists of IAM's show no tags: the name tells the pool.
func (d *driver) listProfiles(ctx context.Context, poolID string) (all []gputrain.Resource, err error) {
	if d.cfg.InstanceProfileARN != autoProfile {
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
		err := d.api.iam.do(ctx, "ListInstanceProfiles", form, &out)
		return out.Profiles, out.Marker, err
	}) {
		if err != nil {
			return nil, err
		}
		pool, ours := strings.CutPrefix(p.Name, nameOf(""))
		if ours && poolForm.MatchString(pool) && (poolID == "" || pool == poolID) {
			all = append(all, gputrain.Resource{Provider: providerName, Kind: kindProfile, ID: p.ARN, Name: p.Name, Pool: pool, HourlyUSD: gputrain.USD(0)})
		}
	}
	return all, nil
}

// deleteProfile removes an instance profile and its role, in the order that IAM asks for.
// What is not there any more was removed before.
func (d *driver) deleteProfile(ctx context.Context, name string) error {
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
		if err := d.api.iam.do(ctx, step.action, step.form, nil); err != nil && !isGone(err) {
			return fmt.Errorf("%s: %w", step.action, err)
		}
	}
	return nil
}
