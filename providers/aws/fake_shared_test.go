package aws

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
)

func (f *fake) describeGroups(c *fakecloud.Call) fakecloud.Answer {
	var in struct {
		filters
		GroupIds []string
	}
	c.Decode(&in)
	all := []row{}
	for _, g := range f.groups.All(c) {
		if f.passes(c, in.filters, rowTags(g.row), map[string]string{"group-name": g.row["GroupName"].(string), "vpc-id": g.row["VpcId"].(string)}) {
			r := maps.Clone(g.row)
			r["IpPermissions"] = g.permissions
			all = append(all, r)
		}
	}
	return paged(c, "SecurityGroups", all, f.listPage)
}

func (f *fake) createGroup(c *fakecloud.Call) fakecloud.Answer {
	var in struct {
		tagged
		GroupName, Description, VpcId string
	}
	c.Decode(&in)
	for _, g := range f.groups.All(nil) {
		if g.row["GroupName"] == in.GroupName {
			return refused("InvalidGroup.Duplicate", "The security group '%s' already exists for VPC '%s'", in.GroupName, in.VpcId)
		}
	}
	if in.VpcId != testVPC {
		return refused("InvalidVpcID.NotFound", "The vpc ID '%s' does not exist", in.VpcId)
	}
	id := f.newID("sg")
	f.groups.Put(c, id, &group{row: row{
		"GroupId": id, "GroupName": in.GroupName, "Description": in.Description, "VpcId": in.VpcId, "Tags": f.tagsOf(c, in.TagSpecifications, "security-group"),
	}})
	return fakecloud.Reply(200, row{"GroupId": id})
}

func (f *fake) authorize(c *fakecloud.Call) fakecloud.Answer {
	var in struct {
		GroupId       string
		IpPermissions []struct {
			IpProtocol       string
			FromPort, ToPort *int
			IpRanges         []struct{ CidrIp string }
			UserIdGroupPairs []struct{ GroupId string }
		}
	}
	c.Decode(&in)
	g, ok := f.groups.Get(nil, in.GroupId)
	if !ok {
		return refused("InvalidGroup.NotFound", "The security group '%s' does not exist", in.GroupId)
	}
	for _, p := range in.IpPermissions {
		r := row{"IpProtocol": p.IpProtocol}
		if p.FromPort != nil {
			r["FromPort"], r["ToPort"] = *p.FromPort, *p.ToPort
		}
		for _, ip := range p.IpRanges {
			if ip.CidrIp == "0.0.0.0/0" {
				f.t.Errorf("port 22 is opened to everybody")
			}
			r["IpRanges"] = []row{{"CidrIp": ip.CidrIp}}
		}
		for _, pair := range p.UserIdGroupPairs {
			r["UserIdGroupPairs"] = []row{{"GroupId": pair.GroupId}}
		}
		if slices.ContainsFunc(g.permissions, func(have row) bool { return fmt.Sprint(have) == fmt.Sprint(r) }) {
			return refused("InvalidPermission.Duplicate", "the specified rule already exists")
		}
		g.permissions = append(g.permissions, r)
	}
	return fakecloud.Reply(200, row{"Return": true})
}

func (f *fake) deleteGroup(c *fakecloud.Call) fakecloud.Answer {
	var in struct{ GroupId string }
	c.Decode(&in)
	for _, r := range f.instances.All(nil) {
		if f.state(r) != "terminated" && slices.Contains(r.data.NetworkInterfaces[0].Groups, in.GroupId) {
			return refused("DependencyViolation", "resource %s has a dependent object", in.GroupId)
		}
	}
	if !f.groups.Delete(c, in.GroupId) {
		return refused("InvalidGroup.NotFound", "The security group '%s' does not exist", in.GroupId)
	}
	return fakecloud.Reply(200, nil)
}

func (f *fake) describeKeys(c *fakecloud.Call) fakecloud.Answer {
	var in filters
	c.Decode(&in)
	all := []row{}
	for _, k := range f.keys.All(c) {
		if f.passes(c, in, rowTags(k), map[string]string{"key-name": k["KeyName"].(string)}) {
			all = append(all, k)
		}
	}
	return fakecloud.Reply(200, row{"KeyPairs": all})
}

func (f *fake) importKey(c *fakecloud.Call) fakecloud.Answer {
	var in struct {
		tagged
		KeyName, PublicKeyMaterial string
	}
	c.Decode(&in)
	for _, k := range f.keys.All(nil) {
		if k["KeyName"] == in.KeyName {
			return refused("InvalidKeyPair.Duplicate", "The keypair '%s' already exists.", in.KeyName)
		}
	}
	key, err := base64.StdEncoding.DecodeString(in.PublicKeyMaterial)
	if err != nil || !strings.HasPrefix(string(key), "ssh-ed25519 ") && !strings.HasPrefix(string(key), "ssh-rsa ") {
		return refused("InvalidKey.Format", "Key is not in valid OpenSSH public key format")
	}
	id := f.newID("key")
	f.keys.Put(c, id, row{"KeyPairId": id, "KeyName": in.KeyName, "Tags": f.tagsOf(c, in.TagSpecifications, "key-pair"), "CreateTime": now()})
	return fakecloud.Reply(200, row{"KeyPairId": id, "KeyName": in.KeyName})
}

func now() string { return time.Now().UTC().Format(time.RFC3339) }

// deleteKey succeeds for a key that does not exist, as EC2's does.
func (f *fake) deleteKey(c *fakecloud.Call) fakecloud.Answer {
	var in struct{ KeyPairId, KeyName string }
	c.Decode(&in)
	f.keys.Delete(c, in.KeyPairId)
	return fakecloud.Reply(200, row{})
}

func (f *fake) describePlacements(c *fakecloud.Call) fakecloud.Answer {
	var in filters
	c.Decode(&in)
	all := []row{}
	for _, p := range f.placements.All(c) {
		if f.passes(c, in, rowTags(p), map[string]string{"group-name": p["GroupName"].(string)}) {
			all = append(all, p)
		}
	}
	return fakecloud.Reply(200, row{"PlacementGroups": all})
}

func (f *fake) createPlacement(c *fakecloud.Call) fakecloud.Answer {
	var in struct {
		tagged
		GroupName, Strategy string
	}
	c.Decode(&in)
	if _, ok := f.placements.Get(nil, in.GroupName); ok {
		return refused("InvalidPlacementGroup.Duplicate", "The Placement Group '%s' already exists.", in.GroupName)
	}
	f.placements.Put(c, in.GroupName, row{
		"GroupName": in.GroupName, "GroupId": f.newID("pg"), "State": "available", "Strategy": in.Strategy, "Tags": f.tagsOf(c, in.TagSpecifications, "placement-group"),
	})
	return fakecloud.Reply(200, row{})
}

func (f *fake) deletePlacement(c *fakecloud.Call) fakecloud.Answer {
	var in struct{ GroupName string }
	c.Decode(&in)
	for _, r := range f.instances.All(nil) {
		if f.state(r) != "terminated" && r.data.Placement.GroupName == in.GroupName {
			return refused("InvalidPlacementGroup.InUse", "The placement group '%s' is in use and may not be deleted.", in.GroupName)
		}
	}
	if !f.placements.Delete(c, in.GroupName) {
		return refused("InvalidPlacementGroup.Unknown", "The Placement Group '%s' is unknown.", in.GroupName)
	}
	return fakecloud.Reply(200, nil)
}

func (f *fake) describeTemplates(c *fakecloud.Call) fakecloud.Answer {
	var in filters
	c.Decode(&in)
	all := []row{}
	for _, t := range f.templates.All(c) {
		if f.passes(c, in, rowTags(t.row), nil) {
			all = append(all, t.row)
		}
	}
	return paged(c, "LaunchTemplates", all, f.listPage)
}

func (f *fake) createTemplate(c *fakecloud.Call) fakecloud.Answer {
	var in struct {
		tagged
		LaunchTemplateName string
		LaunchTemplateData launchData
	}
	c.Decode(&in)
	for _, t := range f.templates.All(nil) {
		if t.row["LaunchTemplateName"] == in.LaunchTemplateName {
			return refused("InvalidLaunchTemplateName.AlreadyExistsException", "Launch template name already in use.")
		}
	}
	id := f.newID("lt")
	r := row{
		"LaunchTemplateId": id, "LaunchTemplateName": in.LaunchTemplateName, "LatestVersionNumber": 1, "CreateTime": now(),
		"Tags": f.tagsOf(c, in.TagSpecifications, "launch-template"),
	}
	f.templates.Put(c, id, &template{r, in.LaunchTemplateData})
	return fakecloud.Reply(200, row{"LaunchTemplate": r})
}

func (f *fake) deleteTemplate(c *fakecloud.Call) fakecloud.Answer {
	var in struct{ LaunchTemplateId, LaunchTemplateName string }
	c.Decode(&in)
	for _, t := range f.templates.All(nil) {
		if id := t.row["LaunchTemplateId"].(string); id == in.LaunchTemplateId || t.row["LaunchTemplateName"] == in.LaunchTemplateName {
			f.templates.Delete(c, id)
			return fakecloud.Reply(200, row{"LaunchTemplate": t.row})
		}
	}
	return refused("InvalidLaunchTemplateName.NotFoundException", "The specified launch template, with template name %s, does not exist.", in.LaunchTemplateName)
}

func (f *fake) describeVolumes(c *fakecloud.Call) fakecloud.Answer {
	var in filters
	c.Decode(&in)
	all := []row{}
	for _, v := range f.volumes.All(c) {
		if f.passes(c, in, rowTags(v), map[string]string{"status": "available", "attachment.instance-id": ""}) {
			all = append(all, v)
		}
	}
	for _, r := range f.instances.All(c) { // the disks that machines have
		if len(r.data.BlockDeviceMappings) > 0 && f.passes(c, in, rowTags(r.row), map[string]string{"status": "in-use", "attachment.instance-id": r.row["InstanceId"].(string)}) {
			all = append(all, row{"VolumeId": "vol-" + r.row["InstanceId"].(string)[2:], "Size": r.data.BlockDeviceMappings[0].Ebs.VolumeSize, "Tags": rowTags(r.row)})
		}
	}
	return paged(c, "Volumes", all, f.listPage)
}

func (f *fake) deleteVolume(c *fakecloud.Call) fakecloud.Answer {
	var in struct{ VolumeId string }
	c.Decode(&in)
	if !f.volumes.Delete(c, in.VolumeId) {
		return refused("InvalidVolume.NotFound", "The volume '%s' does not exist.", in.VolumeId)
	}
	return fakecloud.Reply(200, nil)
}
