package fakecloud

import (
	"encoding/xml"
	"strings"
	"testing"
)

const ec2File = "../../../providers/aws/testdata/api.json"

func TestEC2Requests(t *testing.T) {
	form := func(action, rest string) trial {
		return trial{action + " " + rest, "POST", "/", "Action=" + action + "&Version=2016-11-15" + rest, ""}
	}
	run := "&ImageId=ami-1&MinCount=1&MaxCount=1"
	var trials []trial
	for _, tr := range []struct{ action, rest, complaint string }{
		{"RunInstances", run + "&InstanceType=p5.48xlarge&SecurityGroupId.1=sg-1&SecurityGroupId.2=sg-2", ""},
		{"RunInstances", run + "&TagSpecification.1.ResourceType=instance&TagSpecification.1.Tag.1.Key=a&TagSpecification.1.Tag.1.Value=b", ""},
		{"RunInstances", run + "&NetworkInterface.1.Ipv6Addresses.1.Ipv6Address=::1", ""},
		{"RunInstances", run + "&BlockDeviceMapping.1.Ebs.VolumeSize=100&BlockDeviceMapping.1.Ebs.VolumeType=gp3", ""},
		{"DescribeInstances", "&Filter.1.Name=tag:a&Filter.1.Value.1=b", ""},
		{"RunInstances", "&MinCount=1", "MaxCount: missing"},
		{"RunInstances", run + "&SecurityGroup.Id.1=sg-1", "SecurityGroup: items Id are not numbered"},
		{"RunInstances", run + "&Keyname=k", "Keyname: unknown"},
		{"RunInstances", run + "&TagSpecification.1.Tags.1.Key=a", "TagSpecification.1.Tags: unknown"},
		{"RunInstances", run + "&ImageId.1=ami", "ImageId.1: unknown"},
		{"RunInstances", run + "&SecurityGroupId.2=sg-1", "not numbered from 1"},
		{"RunInstances", run + "&SecurityGroupId=sg-1", "a value instead of members"},
		{"RunInstances", run + "&MinCount=2", "MinCount occurs 2 times"},
		{"RunInstances", "&MinCount=one&MaxCount=1", `"one"`},
		{"RunInstances", run + "&DryRun=yes", "not true or false"},
		{"RunInstances", run + "&InstanceInitiatedShutdownBehavior=delete", "not one of stop, terminate"},
		{"RunInstances", run + "&NetworkPerformanceOptions.BandwidthWeighting=ebs-1", ""}, // not in the model
		{"DescribeInstances", "&NetworkPerformanceOptions.BandwidthWeighting=ebs-1", "unknown"},
		{"StartInstances", "", "unknown Action"},
		{"DescribeInstances", "&Version=2013-01-01", "Version"},
	} {
		one := form(tr.action, tr.rest)
		one.complaint = tr.complaint
		if strings.Contains(tr.rest, "Version=2013") {
			one.body = "Action=DescribeInstances" + tr.rest
		}
		trials = append(trials, one)
	}
	e := EC2(t, ec2File, "RunInstances.NetworkPerformanceOptions")
	try(t, e, append(trials, trial{"GET", "GET", "/", "", "POST"}))

	c := form("RunInstances", run+"&SecurityGroupId.1=sg-1&DryRun=true").call(t)
	if err := e.Find(c); err != nil {
		t.Fatal(err)
	}
	if err := e.Check(c); err != nil {
		t.Fatal(err)
	}
	var in struct {
		ImageId          string
		MinCount         int
		SecurityGroupIds []string
		DryRun           bool
	}
	c.Decode(&in)
	if in.ImageId != "ami-1" || in.MinCount != 1 || !in.DryRun || strings.Join(in.SecurityGroupIds, ",") != "sg-1" {
		t.Errorf("the handler gets %+v", in)
	}
}

func TestEC2Answers(t *testing.T) {
	type tr = struct {
		answer    Answer
		complaint string
	}
	type object = map[string]any
	reservations := func(instance object) Answer {
		return Reply(200, object{"Reservations": []any{object{"Instances": []any{instance}}}})
	}
	e := EC2(t, ec2File)
	describe := trial{method: "POST", path: "/", body: "Action=DescribeInstances&Version=2016-11-15"}
	answers(t, e, describe, map[string]tr{
		"good":           {reservations(object{"InstanceId": "i-1", "LaunchTime": "2026-11-20T10:00:00Z"}), ""},
		"invented":       {reservations(object{"InstanceID": "i-1"}), "DescribeInstances.Reservations.1.Instances.1.InstanceID: unknown"},
		"wrong enum":     {reservations(object{"State": object{"Name": "booting"}}), `"booting" is not one of`},
		"wrong type":     {reservations(object{"AmiLaunchIndex": "0"}), "not of type integer"},
		"not a list":     {Reply(200, object{"Reservations": object{}}), "is not a list"},
		"not a struct":   {Reply(200, []string{"i-1"}), "is not a structure"},
		"text":           {Reply(200, "<ok/>"), "give its values"},
		"an error":       {EC2Error(400, "InvalidInstanceID.NotFound", "i-1 & others"), ""},
		"wrong time":     {reservations(object{"LaunchTime": "yesterday"}), "yesterday"},
		"null left out":  {reservations(object{"InstanceId": nil}), ""},
		"known no model": {Undescribed(200, "<ok/>"), ""},
	})

	c := describe.call(t)
	if err := e.Find(c); err != nil {
		t.Fatal(err)
	}
	a, err := e.Encode(c, reservations(object{"InstanceId": "i-1", "State": object{"Code": 16, "Name": "running"}, "Tags": []any{object{"Key": "a", "Value": "<b>"}}}))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		XMLName   xml.Name `xml:"DescribeInstancesResponse"`
		Instances []struct {
			ID    string `xml:"instanceId"`
			Code  int    `xml:"instanceState>code"`
			Value string `xml:"tagSet>item>value"`
		} `xml:"reservationSet>item>instancesSet>item"`
	}
	if err := xml.Unmarshal(a.Body.([]byte), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Instances) != 1 || got.Instances[0].ID != "i-1" || got.Instances[0].Code != 16 || got.Instances[0].Value != "<b>" {
		t.Errorf("got %+v out of %s", got, a.Body)
	}
	if got.XMLName.Space != "http://ec2.amazonaws.com/doc/2016-11-15" {
		t.Errorf("namespace %s", got.XMLName.Space)
	}

	none := trial{method: "POST", path: "/", body: "Action=CreateTags&Version=2016-11-15"}
	answers(t, e, none, map[string]tr{
		"nothing":   {Reply(200, nil), ""},
		"something": {Reply(200, object{"Return": true}), "has no output"},
	})
}

// SigV4 accepts the signature of AWS's own example, but not another key or a changed body.
func TestSigV4(t *testing.T) {
	c := trial{method: "GET", path: "/?Action=ListUsers&Version=2010-05-08"}.call(t)
	for name, value := range map[string]string{
		"Host": "iam.amazonaws.com", "Content-Type": "application/x-www-form-urlencoded; charset=utf-8", "X-Amz-Date": "20150830T123600Z",
		"Authorization": "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, SignedHeaders=content-type;host;x-amz-date, " +
			"Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7",
	} {
		c.Header.Set(name, value)
	}
	secret := "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
	if !SigV4("AKIDEXAMPLE", secret)(c) {
		t.Error("the right key is refused")
	}
	if SigV4("AKIDEXAMPLE", secret+"x")(c) || SigV4("AKIDOTHER", secret)(c) {
		t.Error("a wrong key is accepted")
	}
	c.Body = []byte("changed")
	if SigV4("AKIDEXAMPLE", secret)(c) {
		t.Error("a changed body is accepted")
	}
}
